"""An app in line for its share of the machine: what its supervisor does until then, and who ends it."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from launcher.inventory.turns import left_by
from launcher.schedulers import loop, pids
from launcher.turns.line import MACHINE, Limit
from launcher.turns.table import summon, tickets
from tests import processes
from tests.unit.local.conftest import Supervise
from tests.unit.local.driving import Driven, go, sh, stay_asleep, turn, withdraw
from tests.waiting import PATIENCE_S

REPORT_MODULES = """
import os, sys
def leave(code, leave=os._exit):
    print(*sys.modules, file=sys.stderr)
    leave(code)
os._exit = leave
"""
SHOW_GPUS = 'echo "GPUs ${CUDA_VISIBLE_DEVICES-all}"'


@pytest.fixture
def holder(supervise: Supervise, table: str) -> Driven:
    """An app that has the one core of the table until it is cancelled."""
    app = supervise("holder")
    assert go(app, table, 1, script="sleep 1000") == {"ok": "started"}
    return app


def in_line(table: str) -> list[tuple[str, str]]:
    return [(each.app, each.state) for each in tickets(table)]


def ended(app: Driven) -> tuple[str, str]:
    assert app.exited() == 0, app.errors
    assert app.errors == ""
    return app.view.state, app.view.message


def never_ran(app: Driven) -> bool:
    return "spawn" not in app.record


def test_the_next_app_is_queued_and_runs_later(supervise: Supervise, holder: Driven, table: str) -> None:
    app = supervise()
    assert go(app, table, 2) == {"ok": "queued"}
    app.hang_up()
    assert (app.view.state, app.view.message) == ("queued", "waits for its turn")
    assert app.view.owner.startswith(f"pid {app.pid} on ")
    assert in_line(table) == [("holder", "holds"), ("app-1", "queued")]
    holder.cancel()
    view = app.ended()
    assert (view.state, view.message, app.log()) == ("succeeded", "", "ran\n")
    assert os.listdir(table) == ["lock"]


def test_an_app_that_does_not_wait_starts_beyond_the_limits(supervise, holder, table):
    app = supervise()
    assert go(app, table, 2, at_once=True, script="sleep 1000") == {"ok": "started"}
    assert in_line(table) == [("holder", "holds"), ("app-1", "holds")]


GPU = {"cpu": 0, "gpus": 1, "devices": ["0"]}


@pytest.fixture(params=["a core", "a GPU"])
def wanted(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """The amounts of an app that asks for the only core, or for the only GPU."""
    (tmp_path / "gpus").mkdir()
    return {} if request.param == "a core" else {**GPU, "gpu_table": str(tmp_path / "gpus")}


STUBBORN = {
    "ignores TERM": "trap '' TERM; echo ready; sleep 1000 & wait",
    "a daemon": "setsid sleep 1000 & echo ready; wait",
    "a daemon whose parent has ended": "(setsid sleep 1000 &); echo ready; sleep 1000",
}


@pytest.mark.parametrize("left", STUBBORN)
def test_the_next_app_in_line_ends_processes_that_a_killed_supervisor_left_and_starts_after_them(
    supervise: Supervise, table: str, tmp_path: Path, left: str
) -> None:
    alive = tmp_path / "alive"  # locked by each process of the first one
    first, second, third = supervise(), supervise(), supervise()
    script = f"exec 9>>{alive}; flock 9; {STUBBORN[left]}"
    assert go(first, table, 1, script=script) == {"ok": "started"}
    first.until_log("ready")
    alone = f"flock -n {alive} echo alone || echo beside"
    assert go(second, table, 2, script=alone) == {"ok": "queued"}
    assert go(third, table, 3, script=alone) == {"ok": "queued"}
    first.kill()
    for app in (second, third):
        assert app.ended().state == "succeeded"
        assert app.log() == "alone\n"
    assert [name for name in os.listdir(table) if name != "lock"] == []


OUTLIVES = "(env -i setsid sleep 1000 & echo $! >{pid}); echo ready; exec sleep 1000"
"""Shell text for a process that cannot be traced to the app once its supervisor has died."""


@pytest.fixture
def outliving(
    supervise: Supervise, table: str, tmp_path: Path, wanted: dict[str, Any]
) -> Iterator[tuple[Driven, int]]:
    """An app in line, and a process that keeps the share of an app whose supervisor is dead."""
    first, second = supervise(), supervise()
    script = OUTLIVES.format(pid=tmp_path / "pid")
    assert go(first, table, 1, script=script, **wanted) == {"ok": "started"}
    first.until_log("ready")
    pid = int((tmp_path / "pid").read_text())
    assert go(second, table, 2, **wanted) == {"ok": "queued"}
    leaders = [each.run[0] for each in first.view.replicas]
    first.kill()
    assert processes.gone(leaders, timeout_s=PATIENCE_S)
    yield second, pid
    processes.kill([pid])


def test_a_process_that_outlives_its_app_keeps_the_share(outliving, table, wanted):
    app, pid = outliving
    for each in (table, wanted.get("gpu_table", table)):
        held, waiting = tickets(each)
        assert (held.app, held.state, held.is_left) == ("app-0", "holds", True)
        assert (waiting.app, waiting.state, waiting.is_left) == ("app-1", "queued", False)
        assert left_by(held) == [pid]
    processes.kill([pid])
    assert app.ended().state == "succeeded"


@pytest.mark.parametrize("wanted", ["a core"], indirect=True)
def test_an_app_is_summoned_beside_processes_that_outlive_another_app(outliving, table):
    app, pid = outliving
    assert summon(table, ["app-1"])
    assert app.ended().state == "succeeded"
    assert pids.start_time(pid)


def test_a_replica_holds_the_proof_of_its_share_and_cannot_read_it(supervise: Supervise, table: str) -> None:
    app = supervise()
    code = (
        "import os; path = os.readlink('/proc/self/fd/900'); print(path.endswith('1-app-0.bell.proof'))\n"
        "try: os.read(900, 1)\nexcept OSError as error: print(error.strerror)"
    )
    assert go(app, table, 1, script=f'{sys.executable} -c "{code}"') == {"ok": "started"}
    app.ended()
    assert app.log() == "True\nBad file descriptor\n"


def test_an_app_keeps_its_share_until_its_last_process_has_ended(supervise, table, tmp_path):
    os.mkfifo(tmp_path / "gate")
    first, second = supervise(), supervise()
    slow = f"trap 'read x < {tmp_path}/gate; exit 1' TERM; echo ready; sleep 1000 & wait"
    assert go(first, table, 1, script=slow) == {"ok": "started"}
    first.until_log("ready")
    assert go(second, table, 2) == {"ok": "queued"}
    first.cancel()
    first.until(lambda view: view.stop is not None and view.stop["why"] == "cancel")
    assert second.view.state == "queued"
    (tmp_path / "gate").write_text("go\n")
    assert first.ended().state == "cancelled"
    assert second.ended().state == "succeeded"


def test_an_app_enters_the_line_when_its_needs_have_succeeded(supervise, holder, table, tmp_path):
    os.mkfifo(tmp_path / "gate")
    need, app = supervise("need"), supervise()
    need.start(need.role("main", sh(f"read x < {tmp_path}/gate")))
    assert go(app, table, 2, needs=[("prepare", need.app_dir)]) == {"ok": "waiting"}
    assert in_line(table) == [("holder", "holds")]
    (tmp_path / "gate").write_text("go\n")
    app.until(lambda view: view.state == "queued")
    assert in_line(table) == [("holder", "holds"), ("app-2", "queued")]
    holder.cancel()
    assert app.ended().state == "succeeded"


def test_the_time_limit_of_an_app_begins_with_its_start(supervise, holder, table):
    app = supervise()
    assert go(app, table, 2, timeout_s=1e-3, script="sleep 1000") == {"ok": "queued"}
    time.sleep(0.05)
    assert app.view.state == "queued"
    holder.cancel()
    assert ended(app) == ("failed", "timed out after 0.001 s")


def test_a_withdrawn_app_gives_up_its_place_also_where_its_supervisor_is_suspended(supervise, holder, table):
    app, behind = supervise(), supervise()
    assert go(app, table, 2) == {"ok": "queued"}
    assert go(behind, table, 3) == {"ok": "queued"}
    os.kill(app.pid, signal.SIGSTOP)
    assert withdraw("app-1")
    assert (*ended(app), never_ran(app)) == ("skipped", "withdrawn", True)
    assert in_line(table) == [("holder", "holds"), ("app-2", "queued")]
    holder.cancel()
    assert behind.ended().state == "succeeded"


def close(app: Driven) -> None:
    assert loop.send(app.socket.fileno(), {"op": "close"})
    app.hang_up()


@pytest.mark.parametrize(("end", "message"), [
    (lambda app: os.kill(app.pid, signal.SIGTERM), "stopped by signal 15"),
    (close, "its Runner was closed"),
], ids=["a signal", "a closed client"])  # fmt: skip
def test_an_attached_app_that_is_ended_gives_up_its_place(supervise, holder, table, end, message):
    app = supervise()
    assert go(app, table, 2, attached=True) == {"ok": "queued"}
    end(app)
    assert (*ended(app), never_ran(app)) == ("cancelled", message, True)
    assert in_line(table) == [("holder", "holds")]


def test_an_app_whose_program_is_gone_when_its_turn_comes_has_failed(supervise, holder, table, tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    app = supervise()
    assert app.create(app.role("main", [str(program)])) == {"ok": "created"}
    assert app.ask({"op": "go", "turn": turn(app, table, 2)}) == {"ok": "queued"}
    program.unlink()
    holder.cancel()
    state, message = ended(app)
    assert (state, message.startswith("main/0 could not be started: ")) == ("failed", True)
    assert in_line(table) == []


@pytest.mark.slow
def test_a_table_that_cannot_be_written_is_tried_again(supervise: Supervise, tmp_path: Path) -> None:
    app = supervise()
    table = tmp_path / "later"
    assert go(app, str(table), 1) == {"ok": "queued"}
    why = f"{table}/lock: No such file or directory"
    assert app.view.warnings == [f"cannot take its place in line, and tries again: {why}"]
    table.mkdir()
    assert app.ended().state == "succeeded"
    assert os.listdir(table) == ["lock"]


def test_gpus_are_dealt_to_the_replicas_when_the_turn_comes(supervise, table, tmp_path):
    gpus = tmp_path / "gpus"
    gpus.mkdir()
    devices = {"cpu": 0, "limits": [], "devices": ["0", "1", "2"], "gpu_table": str(gpus)}
    first, second = supervise(), supervise()
    assert go(first, table, 1, script="sleep 1000", gpus=1, **devices) == {"ok": "started"}
    env = {"CUDA_VISIBLE_DEVICES": "$<gpus>"}
    roles = [
        second.role("pair", sh(SHOW_GPUS), env=env) | {"gpus": 2},
        second.role("own", sh(SHOW_GPUS), env={"CUDA_VISIBLE_DEVICES": "9"}),
        second.role("none", sh(SHOW_GPUS), env={"CUDA_VISIBLE_DEVICES": "$<gpus>"}),
        second.role("many", sh(SHOW_GPUS), sh("kill -9 $$"), env=env, retries=1) | {"gpus": 1},
    ]
    roles[3]["replicas"][1]["argv"][2] = f'{SHOW_GPUS}; [ "$LAUNCHER_RESTART" = 1 ]'
    assert second.create(*roles) == {"ok": "created"}
    asked = turn(second, table, 2, gpus=4, **devices | {"devices": ["0", "1", "2", "3", "4"]})
    assert second.ask({"op": "go", "turn": asked}) == {"ok": "started"}
    assert second.ended().state == "succeeded"
    assert {name: set(second.log(name).splitlines()) for name in ("pair", "own", "none")} == {
        "pair": {"GPUs 1,2"},
        "own": {"GPUs 9"},
        "none": {"GPUs $<gpus>"},
    }
    assert set(second.log("many").splitlines()) == {"GPUs 3"}
    assert second.log("many", 1) == "GPUs 4\n" * 2, "the restart has other GPUs"


def test_replicas_see_all_gpus_where_no_gpu_is_known(supervise, table, tmp_path):
    gpus = tmp_path / "gpus"
    gpus.mkdir()
    app = supervise()
    role = app.role("main", sh(SHOW_GPUS), env={"CUDA_VISIBLE_DEVICES": "$<gpus>"}) | {"gpus": 1}
    assert app.create(role, env={"PATH": os.environ["PATH"]}) == {"ok": "created"}
    asked = turn(app, table, 1, gpus=1, gpu_table=str(gpus), at_once=True)
    assert app.ask({"op": "go", "turn": asked}) == {"ok": "started"}
    assert app.ended().state == "succeeded"
    assert app.log() == "GPUs all\n"


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [25])
def test_an_app_withdrawn_when_its_turn_comes_is_skipped_or_runs_and_never_both(
    supervise, table, tmp_path, rounds
):
    """Two clients withdraw the app when its turn comes: once withdrawn it never runs, otherwise it runs."""
    for number in range(rounds):
        first, second = supervise(), supervise()
        assert go(first, table, 2 * number + 1, script="sleep 1000") == {"ok": "started"}
        assert go(second, table, 2 * number + 2, script=f"touch {tmp_path}/ran-{number}") == {"ok": "queued"}
        with ThreadPoolExecutor(2) as pool:
            first.cancel()
            time.sleep(number * 0.0004)  # moves the withdrawal over the moment of the start
            answers = list(pool.map(withdraw, [os.path.basename(second.app_dir)] * 2))
        first.exited()
        second.exited()
        withdrawn = any(answers)  # the later client may find that it does not wait any more
        expected = ("skipped", "withdrawn") if withdrawn else ("succeeded", "")
        assert (second.view.state, second.view.message) == expected
        assert (tmp_path / f"ran-{number}").exists() is not withdrawn
        assert os.listdir(table) == ["lock"]


@pytest.mark.slow
def test_waiting_in_line_costs_no_wake_ups(supervise: Supervise, holder: Driven, table: str) -> None:
    apps = [supervise() for _ in range(3)]
    for number, app in enumerate(apps, 2):
        assert go(app, table, number) == {"ok": "queued"}
        app.hang_up()
    assert stay_asleep(*(app.pid for app in apps))


def test_a_supervisor_without_an_ask_loads_nothing_for_turns(supervise: Supervise) -> None:
    app = supervise(first=REPORT_MODULES)
    assert app.create(app.role("main", ["true"])) == {"ok": "created"}
    assert app.ask({"op": "go", "turn": None}) == {"ok": "started"}
    app.exited()
    assert "launcher.schedulers.local.supervisor" in app.errors
    assert not [n for n in app.errors.split() if n.startswith("launcher.turns") or n.endswith(".turn")]


def test_processes_of_two_supervisors_that_die_one_after_the_other_are_ended(supervise, table):
    two = {"limits": [Limit(MACHINE, cpu=2)]}
    holders = [supervise(), supervise()]
    for number, holder in enumerate(holders, 1):
        script = STUBBORN["ignores TERM"]
        assert go(holder, table, number, script=script, **two) == {"ok": "started"}
        holder.until_log("ready")
    app = supervise()
    assert go(app, table, 3, cpu=2, **two) == {"ok": "queued"}
    for holder in holders:
        holder.kill()
    assert app.ended().state == "succeeded"
