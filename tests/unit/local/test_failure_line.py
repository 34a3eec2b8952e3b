"""The end of an app whose program has failed has the last line of its stderr, and no secret."""

import json
import os
from pathlib import Path

import pytest

from launcher.schedulers.local import rundir
from tests.unit.local.driving import Driven, sh


def events(app: Driven) -> str:
    return Path(rundir.events(app.app_dir)).read_text()


def ended(app: Driven) -> str:
    return str(json.loads(events(app).splitlines()[-1])["message"])


def test_the_line_is_found_behind_much_output(app: Driven) -> None:
    app.run(app.role("main", sh("echo why >&2; seq 20000; exit 3")))
    assert ended(app) == "main/0 exited with 3: why"
    assert os.path.getsize(app.logs / "main" / "0" / rundir.COMBINED) > 100_000


def test_a_line_longer_than_the_part_that_is_read_is_not_reported(app: Driven) -> None:
    app.run(app.role("main", sh("head -c 100000 /dev/zero | tr '\\0' x >&2; exit 3")))
    assert ended(app) == "main/0 exited with 3"


def test_the_line_is_found_in_a_log_with_a_bound(app: Driven) -> None:
    script = "seq 100000 >&2; echo last >&2; exit 3"
    app.run(app.role("main", sh(script)), log_max_bytes=40_000)
    assert ended(app) == "main/0 exited with 3: last"


@pytest.mark.slow
def test_a_stopped_program_is_not_blamed_with_its_last_line(app: Driven) -> None:
    app.run(
        app.role("main", sh("exit 3")),
        app.role("other", sh("trap 'echo bye >&2; exit 1' TERM; sleep 100 & wait")),
    )
    assert ended(app) == "main/0 exited with 3"
    assert "bye" not in events(app)
