"""Submissions of other clients: resumed after their death, awaited while they may live, taken when asked."""

import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.schedulers import get_scheduler
from launcher.schedulers.docker import reserve
from launcher.schedulers.owner import this_process
from launcher.specs import AppDef, Role
from launcher.specs.attempt import Attempt
from launcher.specs.canonical import digest, document
from launcher.specs.launch import JobKey, Launch, attempt_id
from tests.engines.images import SHELL_IMAGE

DIES_STARTING = """
import sys
from launcher.__main__ import main
from tests.half_start import dies_starting

dies_starting()
sys.argv = ["launcher", *sys.argv[1:]]
main()
"""


def test_a_half_started_job_is_resumed_and_starts_nothing_twice(scenario):
    log = scenario.folder / "starts"
    file = scenario.job(f"echo $<replica_id> >>{log}", replicas=3)
    client = scenario.spawn([sys.executable, "-c", DIES_STARTING, "apply", str(file), "--yes"])
    _, err = client.communicate()
    assert client.returncode == -signal.SIGKILL, err

    assert scenario.actions(file) == {"job": "resume"}
    scenario.run_to_end(file)
    assert sorted(log.read_text().split()) == ["0", "1", "2"]
    [attempt] = scenario.attempts()
    assert (attempt.number, attempt.state) == (1, "succeeded")
    assert scenario.actions(file) == {"job": "keep"}


@pytest.fixture
def elsewhere(scenario: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Reserve the job as a client on another machine does; return its app id."""
    key = JobKey(scenario.token, "default", "job")
    app = AppDef("job", [Role("main", SHELL_IMAGE, entrypoint="sh", args=["-c", "true"])])
    made = document(Launch(key=key, app=app, scheduler="local_docker", root="/", file="f", origin=""))
    attempt = Attempt(
        key=key,
        number=1,
        app_id=attempt_id(key, 1),
        scheduler="local_docker",
        digest=digest(made),
        document=made,
        created_at=1.5,
    )
    far = replace(this_process(), host="far-away", boot="b", home="/home/far/.launcher")
    with monkeypatch.context() as there:
        there.setenv("LAUNCHER_HOME", str(tmp_path / "far"))
        there.setattr(reserve, "this_process", lambda: far)
        scheduler: Any = get_scheduler("local_docker", scenario.token, detach=True)
        reservation = scheduler.reserve(attempt)
    yield attempt.app_id
    scheduler.close()
    reservation.lock.release()


def test_a_job_that_is_submitted_on_another_machine_is_waited_for_or_taken_over(scenario, elsewhere):
    file = scenario.job("true")
    done = scenario.launcher("apply", file, "--yes", "--lock-timeout", "1s", code=7)
    assert "far-away" in done.err
    [left] = scenario.containers()
    assert (left.name, left.labels["launcher.part"]) == (elsewhere, "reservation")
    scenario.launcher("apply", file, "--yes", "--take-over", "--wait")
    assert [one.name for one in scenario.containers()] == [f"{elsewhere}-main-0"]
    [attempt] = scenario.attempts()
    assert (attempt.app_id, attempt.state) == (elsewhere, "succeeded")
