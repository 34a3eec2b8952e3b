"""Retries: which replicas are started again, how often, and the events about it."""

from pathlib import Path

import pytest

from tests.unit.local.conftest import Supervise
from tests.unit.local.driving import Driven, sh

SLEEP = ["sleep", "1000"]


@pytest.mark.slow
def test_a_restart_of_the_application_begins_with_no_process_of_the_run_before(app: Driven) -> None:
    daemon = "setsid -f sh -c 'echo $$ > daemon; sleep 1000'; while [ ! -s daemon ]; do :; done; exit 1"
    script = f"[ $LAUNCHER_RESTART = 1 ] || {{ {daemon}; }}; kill -0 $(cat daemon) || echo gone"
    app.run(app.role("main", sh(script), retries=1))
    assert app.log(stream="stdout") == "gone\n"


def test_a_replica_that_cannot_be_started_again_fails_the_app(app: Driven, tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\nrm tool; exit 1\n")
    tool.chmod(0o755)
    view = app.run(app.role("main", ["./tool"], SLEEP, cwd=str(tmp_path), retries=3, policy="REPLICA"))
    assert view.state == "failed"
    assert view.message == "main/0 could not be started again: no such executable: ./tool"
    assert app.left() == []


def test_an_endless_series_of_failures_is_cancelled_like_anything_else(app: Driven) -> None:
    app.start(app.role("main", ["false"], retries=1_000_000, policy="REPLICA"))
    app.until(lambda view: view.num_restarts > 20)
    app.cancel()
    assert app.ended().state == "cancelled"


def test_replicas_of_a_role_keep_their_own_environments(app: Driven) -> None:
    script = "echo $LAUNCHER_RESTART $A $B; exit $((1 - LAUNCHER_RESTART))"
    role = app.role("main", *[sh(script)] * 3, retries=1)
    for k, own in enumerate(({"A": "a", "B": "b"}, {"A": "other"}, {"B": "b"})):
        role["replicas"][k]["env"].update(own)
    assert app.run(role).state == "succeeded"
    assert [app.log("main", k).splitlines()[-1] for k in range(3)] == ["1 a b", "1 other", "1 b"]


def test_a_clock_that_is_set_back_loses_no_time_limit(supervise: Supervise, tmp_path: Path) -> None:
    is_set = tmp_path / "is_set"
    clock = f"lambda now=time.time: now() - 0.5 * os.path.exists({str(is_set)!r})"
    app = supervise(first=f"import os, time; time.time = {clock}\n")
    app.start(app.role("main", SLEEP), timeout_s=1.0)
    is_set.touch()
    assert app.ended().message == "timed out after 1 s"
