"""Retries: which replicas are started again, how often, and what is told of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from launcher.holding.events import LONGEST_DELAY_S, pause_s
from launcher.schedulers.local import rundir
from launcher.schedulers.local.logwriter import RECORD_BYTES, RESTART
from launcher.specs.app import LONGEST_DELAY_S as BOUND
from tests.lanes import sampled
from tests.unit.local.driving import Driven, replicas, sh

SLEEP = ["sleep", "1000"]
SAY = "echo run $LAUNCHER_RESTART; "


def test_without_retries_a_failure_is_final(app: Driven) -> None:
    view = app.run(app.role("main", sh(SAY + "exit 1")))
    assert (view.state, view.num_restarts, app.log()) == ("failed", 0, "run 0\n")


def test_replica_policy_restarts_only_that_replica(app: Driven) -> None:
    view = app.run(
        app.role("main", sh(SAY + "exit $((1 - LAUNCHER_RESTART))"), sh(SAY), retries=1, policy="REPLICA")
    )
    assert (view.state, view.num_restarts) == ("succeeded", 1)
    assert app.log("main", 0) == "run 0\nrun 1\n"
    assert app.log("main", 1) == "run 0\n"
    assert [each.num_restarts for each in replicas(view)] == [1, 0]


def test_each_replica_has_its_own_retries(app: Driven) -> None:
    argv = sh(SAY + "exit $((2 - LAUNCHER_RESTART))")
    view = app.run(app.role("main", argv, argv, retries=2, policy="REPLICA"))
    assert (view.state, view.num_restarts) == ("succeeded", 4)


def test_role_policy_restarts_the_whole_role_and_nothing_else(app: Driven) -> None:
    view = app.run(
        app.role("main", sh(SAY + "exit $((1 - LAUNCHER_RESTART))"), sh(SAY), retries=1, policy="ROLE"),
        app.role("other", sh(SAY + "sleep 0.1")),
    )
    assert (view.state, view.num_restarts) == ("succeeded", 1)
    assert app.log("main", 0) == "run 0\nrun 1\n"
    assert app.log("main", 1).endswith("run 1\n")  # the first may have been stopped before it said anything
    assert app.log("other") == "run 0\n"


def test_application_policy_restarts_everything(app: Driven) -> None:
    view = app.run(
        app.role("main", sh(SAY + "exit $((1 - LAUNCHER_RESTART))"), retries=1),
        app.role("other", sh(SAY)),
        app.role("third", sh(SAY + "[ $LAUNCHER_RESTART = 1 ] || sleep 1000")),
    )
    assert (view.state, view.num_restarts) == ("succeeded", 1)
    for role in ("main", "other", "third"):
        assert app.log(role).endswith("run 1\n")
    assert [each.num_restarts for each in replicas(view)] == [1, 1, 1]


def test_a_restart_of_the_application_begins_with_no_process_of_the_old_one(app: Driven) -> None:
    daemon = "setsid -f sh -c 'echo $$ > daemon; sleep 1000'; while [ ! -s daemon ]; do :; done; exit 1"
    script = f"[ $LAUNCHER_RESTART = 1 ] || {{ {daemon}; }}; kill -0 $(cat daemon) || echo gone"
    app.run(app.role("main", sh(script), retries=1))
    assert app.log(stream="stdout") == "gone\n"


@pytest.mark.parametrize("policy", ["APPLICATION", "ROLE", "REPLICA"])
def test_retries_are_bounded_and_the_last_failure_counts(app: Driven, policy: str) -> None:
    view = app.run(
        app.role("main", sh(SAY + "exit $((10 + LAUNCHER_RESTART))"), SLEEP, retries=2, policy=policy)
    )
    assert (view.state, view.message, view.code) == ("failed", "main/0 exited with 12", 12)
    assert view.num_restarts == 2
    assert app.log() == "run 0\nrun 1\nrun 2\n"


def test_the_failing_role_decides_how_often_the_application_is_restarted(app: Driven) -> None:
    view = app.run(app.role("main", sh("exit 1"), retries=1), app.role("other", SLEEP, retries=9))
    assert (view.state, view.num_restarts) == ("failed", 1)


def test_logs_go_on_in_the_same_files_and_the_index_marks_the_restart(app: Driven) -> None:
    app.run(app.role("main", sh(SAY + "exit $((1 - LAUNCHER_RESTART))"), retries=1))
    index = (app.logs / "main" / "0" / rundir.INDEX).read_bytes()
    records = [index[at : at + RECORD_BYTES] for at in range(0, len(index), RECORD_BYTES)]
    kinds = [record[8] & 3 for record in records]
    assert kinds == [0, RESTART, 0]
    assert int.from_bytes(records[1][:8], "little") == len("run 0\n")


def test_a_replica_that_cannot_be_started_again_fails_the_app(app: Driven, tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\nrm tool; exit 1\n")
    tool.chmod(0o755)
    view = app.run(app.role("main", ["./tool"], SLEEP, cwd=str(tmp_path), retries=3, policy="REPLICA"))
    assert view.state == "failed"
    assert view.message == "main/0 could not be started again: no such executable: ./tool"
    assert app.left() == []


def test_cancel_during_a_restart_wins(app: Driven) -> None:
    app.start(
        app.role("main", sh("echo ready; trap '' TERM; sleep 1000; sleep 1000"), sh("exit 1"), retries=5),
        grace_s=0.3,
    )
    app.until(lambda view: view.stop_why == "restart")
    app.cancel("dave")
    view = app.ended()
    assert (view.state, view.message) == ("cancelled", "cancelled by dave")
    assert app.left() == []


def test_an_endless_series_of_failures_is_cancelled_like_anything_else(app: Driven) -> None:
    app.start(app.role("main", ["false"], retries=1_000_000, policy="REPLICA"))
    app.until(lambda view: view.num_restarts > 20)
    app.cancel()
    assert app.ended().state == "cancelled"


def test_replicas_of_a_role_keep_their_own_environments(app: Driven) -> None:
    role = app.role(
        "main", *[sh("echo $LAUNCHER_RESTART $A $B; exit $((1 - LAUNCHER_RESTART))")] * 3, retries=1
    )
    for k, own in enumerate(({"A": "a", "B": "b"}, {"A": "other"}, {"B": "b"})):
        role["replicas"][k]["env"].update(own)
    assert app.run(role).state == "succeeded"
    assert [app.log("main", k).splitlines()[-1] for k in range(3)] == ["1 a b", "1 other", "1 b"]


def _events(app: Driven, kind: str) -> list[dict[str, Any]]:
    return [event for line in app.record.splitlines() if (event := json.loads(line))["e"] == kind]


def test_a_pause_doubles_up_to_five_minutes() -> None:
    assert [pause_s(2, n) for n in (1, 2, 3, 8, 9, 1000)] == [2, 4, 8, 256, 300, 300]
    assert pause_s(0, 7) == 0
    assert LONGEST_DELAY_S == BOUND


@pytest.mark.parametrize("policy", sampled(["REPLICA", "ROLE", "APPLICATION"], "ROLE"))
def test_a_restart_waits_for_its_pause(app: Driven, policy: str) -> None:
    argv = sh(SAY + "exit $((1 - LAUNCHER_RESTART))")
    view = app.run(app.role("main", argv, retries=1, policy=policy, rules={"retry_delay": 1}))
    assert (view.state, view.num_restarts, app.log()) == ("succeeded", 1, "run 0\nrun 1\n")
    (restart,) = _events(app, "restart")
    assert restart["delay_s"] == 1
    assert _events(app, "spawn")[1]["t"] - restart["t"] >= 1e9


def test_a_replica_in_its_pause_is_pending(app: Driven) -> None:
    app.start(app.role("main", sh("exit 1"), retries=1, policy="REPLICA", rules={"retry_delay": 300}))
    view = app.until(lambda view: view.num_restarts)
    assert (view.state, app.replica().state) == ("running", "pending")
    app.cancel()
    assert (app.ended().state, app.replica().state) == ("cancelled", "cancelled")


@pytest.mark.slow
def test_a_pause_ends_when_everything_starts_again(app: Driven) -> None:
    """The replica that pauses is started with the others, and not a second time."""
    paused = app.role("paused", sh(SAY + "[ $LAUNCHER_RESTART != 0 ]"), retries=1, policy="REPLICA")
    paused["rules"] = {"retry_delay": 5}
    breaker = sh(
        SAY + "[ $LAUNCHER_RESTART = 1 ] && sleep 6 || { until [ -e go ]; do sleep 0.01; done; exit 1; }"
    )
    app.start(paused, app.role("main", breaker, retries=1))
    app.until(lambda view: view.num_restarts)
    Path(app.cwd, "go").touch()
    view = app.ended()
    assert view.state == "succeeded"
    assert app.log("paused") == "run 0\nrun 2\n"


def test_a_supervisor_that_dies_in_a_pause_leaves_a_lost_app(app: Driven) -> None:
    app.start(app.role("main", sh("exit 1"), retries=1, policy="REPLICA", rules={"retry_delay": 300}))
    app.until(lambda view: view.num_restarts)
    app.kill()
    assert app.view.state == "lost"
    assert app.left() == []
