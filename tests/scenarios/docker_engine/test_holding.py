"""Waiting attempts on Docker: taken over, pruned, and held by another home or another machine."""

import json
import subprocess
import sys
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from launcher.errors import ReservedError
from launcher.schedulers.docker import gc, tombstones
from launcher.schedulers.docker.client.engine import Engine, connect
from launcher.schedulers.docker.watching import rendezvous
from launcher.specs import AppDef
from launcher.specs.attempt import Attempt
from launcher.specs.secret import Secret
from tests import processes
from tests.contract.conftest import Case, DockerCase, Gate
from tests.contract.test_holding import ended, hold, needing, prepare
from tests.contract.test_staged import attempt_of
from tests.engines.docker import Daemon
from tests.kill_at import WATCHER, first_run
from tests.lanes import EVERY_ACT
from tests.scenarios.docker_engine.sweeps import (
    PARTS,
    containers,
    in_parts,
    killed_client,
    rests,
    settle,
    state_of,
    swept,
)
from tests.waiting import until


def held_pair(case: DockerCase, at: int) -> tuple[Gate, Path, Attempt, AppDef, Attempt]:
    """Start a need that waits for a gate; return gate, file of runs, need, and an app with its attempt.

    The need is a local app, which starts sooner than a container.
    """
    gate, ran = Gate(case.shared / f"gate{at}"), case.shared / f"ran{at}"
    local = Case("local_cwd", case.session, "", case.shared)
    first = prepare(local, local.scheduler, gate.script, f"prepare{at}")
    app = case.app(f"echo once >>{ran}", replicas=2)
    return gate, ran, first, app, attempt_of(case, app, key=case.key(f"train{at}"))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@in_parts(1)
def test_a_waiting_attempt_succeeds_when_a_client_is_killed_taking_it_over(case, staged, launcher_home, part):
    """The first acts remove the containers of the dead watcher and reserve the app id again.

    Further acts are those of the clients that test_turns.py kills.
    """
    for at in islice(swept(part), (8 if EVERY_ACT else 4) // PARTS):
        gate, ran, first, app, attempt = held_pair(case, at)
        hold(case, staged, app, first, job=f"train{at}")
        watcher = processes.supervisors(str(launcher_home))[attempt.app_id]
        processes.kill([watcher])
        assert processes.gone([watcher], timeout_s=60)
        assert killed_client(attempt, at, needs=needing(first)) == 0
        assert state_of(case, attempt) in ("none", "reserved", "created", "waiting"), at
        settle(case, attempt, partial(hold, case, staged, app, first, job=f"train{at}"))
        gate.open()
        assert ended(case, staged, attempt)[0] == "succeeded", at
        assert ran.read_text().split() == ["once", "once"], at
    assert rests(case) == []


def test_an_unwatched_attempt_whose_reservation_was_pruned_is_cancelled(case, staged, gate, launcher_home):
    first = prepare(case, staged, gate.script)
    attempt = hold(case, staged, case.app(), first)
    kill_watcher(attempt, launcher_home)
    Daemon().remove(containers(attempt))
    assert ended(case, staged, attempt) == ("cancelled", "its reservation was removed")
    assert [(each.app_id, each.state) for each in staged.reap()] == [(attempt.app_id, "cancelled")]
    with pytest.raises(ReservedError, match="cancelled"):
        staged.reserve(attempt)


def kill_watcher(attempt: Attempt, home: Path) -> None:
    watcher = processes.supervisors(str(home))[attempt.app_id]
    processes.kill([watcher])
    assert processes.gone([watcher], timeout_s=20)


@pytest.fixture
def second_home(tmp_path: Path) -> Path:
    return tmp_path / "second"


def test_an_attempt_waits_for_a_need_of_another_home(case, staged, gate, second_home, monkeypatch):
    first = prepare(case, staged, f"{gate.script}; echo model >{case.shared}/model")
    with monkeypatch.context() as there:
        there.setenv("LAUNCHER_HOME", str(second_home))
        other: Any = case.another()
        attempt = hold(case, other, case.app(f"cat {case.shared}/model"), first)
        gate.open()
        assert ended(case, other, attempt)[0] == "succeeded"


@pytest.fixture
def watched_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No app shares its watcher with another one, so that a test can kill the watcher of one of them."""
    monkeypatch.setattr(rendezvous, "name_of", lambda *_: "")


@pytest.mark.usefixtures("watched_alone")
def test_an_attempt_waits_for_a_need_without_a_watcher(case, staged, gate, launcher_home):
    """Without a watcher the end of a container is no outcome: the next watcher may restart it."""
    once = f"[ -e {case.shared}/once ] || {{ touch {case.shared}/once; exit 1; }}"
    app = case.app(f"{gate.script}; {once}", max_retries=1)
    first = attempt_of(case, app, key=case.key("prepare"))
    reservation = staged.reserve(first)
    staged.create(reservation, app, {})
    staged.start(reservation)
    attempt = hold(case, staged, case.app(), first)
    kill_watcher(first, launcher_home)
    gate.open()
    until(lambda: all(one.state == "exited" for one in containers(first)))
    assert state_of(case, attempt) == "waiting"
    assert staged.describe(first.app_id) is not None  # a later command
    assert ended(case, staged, attempt)[0] == "succeeded"


@pytest.mark.usefixtures("watched_alone")
def test_an_attempt_waits_for_a_waiting_need_without_a_holder(case, staged, gate, launcher_home):
    first = prepare(case, staged, gate.script)
    app = case.app()
    second = hold(case, staged, app, first)
    third = hold(case, staged, case.app(), second, job="evaluate")
    kill_watcher(second, launcher_home)
    gate.open()
    case.end(first.app_id)
    assert state_of(case, third) == "waiting"
    settle(case, second, partial(hold, case, staged, app, first))
    assert ended(case, staged, third)[0] == "succeeded"


def test_the_secrets_of_an_attempt_are_read_when_it_is_accepted_and_never_written(
    case, staged, gate, launcher_home, monkeypatch
):
    first = prepare(case, staged, gate.script)
    app = case.app('echo "$TOKEN $COPIED_ONE"')
    app.roles[0].env["TOKEN"] = Secret("env:CANARY")
    monkeypatch.setenv("CANARY", "s3cr3t-canary")
    monkeypatch.setenv("COPIED_ONE", "c0pied-canary")
    attempt = hold(case, staged, app, first, copy_env=["COPIED_*"])
    monkeypatch.delenv("CANARY")
    monkeypatch.delenv("COPIED_ONE")
    [waiting] = containers(attempt)
    assert "canary" not in json.dumps(Daemon().inspect(waiting.id))
    files = [path for path in launcher_home.rglob("*") if path.is_file()]
    assert [path for path in files if b"canary" in path.read_bytes()] == []
    gate.open()
    assert ended(case, staged, attempt)[0] == "succeeded"
    assert case.lines(attempt.app_id) == ["s3cr3t-canary c0pied-canary\n"]


def test_an_attempt_that_can_no_longer_be_created_has_failed(case, staged, gate, tmp_path):
    """The folder that the app mounts is gone when its turn to start comes."""
    from launcher.specs import BindMount

    first = prepare(case, staged, gate.script)
    folder = tmp_path / "data"
    folder.mkdir()
    app = case.app()
    app.roles[0].mounts.append(BindMount(str(folder), "/data"))
    attempt = hold(case, staged, app, first)
    folder.rmdir()
    gate.open()
    state, message = ended(case, staged, attempt)
    assert state == "failed"
    assert "r/0" in message
    assert rests(case) == []


def test_gc_keeps_the_needs_of_a_waiting_attempt(case, staged, gate, launcher_home, token):
    good = prepare(case, staged, "true", "fetch")
    first = prepare(case, staged, gate.script)
    case.end(good.app_id)
    attempt = hold(case, staged, case.app(), good, first)
    view = connect(readonly=True)
    assert good.app_id not in [each.app_id for each in gc.finished(view)]
    gate.open()
    assert ended(case, staged, attempt)[0] == "succeeded"
    assert good.app_id in [each.app_id for each in gc.finished(view)]


@pytest.mark.parametrize("dead", [tombstones.START, tombstones.RESUME])
def test_an_attempt_runs_although_a_dead_process_had_decided_its_start(
    case, staged, gate, launcher_home, dead
):
    first = prepare(case, staged, gate.script)
    attempt = hold(case, staged, case.app(), first)
    kill_watcher(attempt, launcher_home)
    program = (
        "import sys; from launcher.schedulers.docker import tombstones, apps;"
        "from launcher.schedulers.docker.client.engine import connect;"
        "engine = connect(); [one] = apps.list_containers(engine, sys.argv[1]);"
        "print(tombstones.decide(engine, one, sys.argv[2]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, attempt.app_id, dead], check=True, stdout=subprocess.PIPE, text=True
    )
    assert ran.stdout == f"{dead}\n"
    assert staged.withdraw(attempt.app_id)
    assert ended(case, staged, attempt) == ("skipped", "withdrawn")
    assert rests(case) == []


def test_another_process_carries_out_an_end_that_a_dead_client_decided(case, staged, gate, launcher_home):
    """The client that withdrew the attempt died before it could record the end."""
    first = prepare(case, staged, gate.script)
    attempt = hold(case, staged, case.app(), first)
    from launcher.schedulers.docker import apps

    engine = connect()
    [one] = apps.list_containers(engine, attempt.app_id)
    assert tombstones.decide(engine, one, tombstones.ending("skipped", "withdrawn")) == tombstones.ending(
        "skipped", "withdrawn"
    )
    gate.open()
    assert ended(case, staged, attempt) == ("skipped", "withdrawn")
    assert rests(case) == []


@pytest.mark.parametrize("seen_from", ["here", "another home"])
def test_a_withdrawal_that_the_watcher_carries_out_counts_for_the_client(
    case, staged, gate, monkeypatch, second_home, seen_from
):
    """The watcher finds the client's decision, and removes the container before the client looks again."""
    first = prepare(case, staged, gate.script)
    attempt = hold(case, staged, case.app(), first)
    real = Engine.create_volume

    def slow(engine: Engine, name: str, *args: Any, **how: Any) -> bool:
        made = real(engine, name, *args, **how)
        if name.startswith(attempt.app_id):
            gate.open()
            until(lambda: containers(attempt) == [])
        return made

    with monkeypatch.context() as late:
        if seen_from == "another home":
            late.setenv("LAUNCHER_HOME", str(second_home))
        late.setattr(Engine, "create_volume", slow)
        assert case.another().withdraw(attempt.app_id)
    assert ended(case, staged, attempt) == ("skipped", "withdrawn")


FAR = """
from dataclasses import replace
from launcher.schedulers.docker.watching import hold
real = hold.this_process
hold.this_process = lambda: replace(real(), host="far")
"""
"""Python text of a watcher that holds apps as if on another machine."""


def test_only_take_over_takes_an_attempt_that_another_machine_holds(
    case, staged, gate, monkeypatch, tmp_path, launcher_home
):
    first = prepare(case, staged, gate.script)
    app = case.app("echo once")
    with monkeypatch.context() as there:
        there.setenv("LAUNCHER_HOME", str(tmp_path / "far"))
        first_run(WATCHER, FAR, there.setattr)
        attempt = hold(case, staged, app, first)
    kill_watcher(attempt, tmp_path / "far")
    found = staged.attempt(attempt.app_id)
    assert (found.state, found.owner.endswith(" on far")) == ("waiting", True)
    with pytest.raises(ReservedError, match="on far"):
        staged.reserve(attempt)
    staged.take_over = True
    assert staged.attempt(attempt.app_id).owner == ""
    hold(case, staged, app, first)
    gate.open()
    assert ended(case, staged, attempt)[0] == "succeeded"


def test_an_attempt_that_a_client_takes_over_slowly_is_not_cancelled_by_its_watcher(
    case, staged, gate, monkeypatch, tmp_path
):
    """The watcher on the other machine sees that its container is removed, and nothing more for a while."""
    first = prepare(case, staged, gate.script)
    app = case.app("echo once")
    with monkeypatch.context() as there:
        there.setenv("LAUNCHER_HOME", str(tmp_path / "far"))
        first_run(WATCHER, FAR, there.setattr)
        attempt = hold(case, staged, app, first)
    real = Engine.create

    def slow(engine: Engine, name: str, *args: Any, **how: Any) -> str:
        if name == attempt.app_id:
            until(lambda: not processes.watchers(str(tmp_path / "far")))
        return real(engine, name, *args, **how)

    monkeypatch.setattr(Engine, "create", slow)
    staged.take_over = True
    hold(case, staged, app, first)
    gate.open()
    assert ended(case, staged, attempt)[0] == "succeeded"
    assert rests(case) == []


def test_the_tombstone_of_a_skipped_attempt_keeps_the_tombstone_before_it(case, staged, gate):
    good = prepare(case, staged, "true", "train")
    case.end(good.app_id)
    first = prepare(case, staged, gate.script)
    view = connect(readonly=True)
    for number in (2, 3):
        assert staged.withdraw(hold(case, staged, case.app(), first, number=number).app_id)
        assert {each.number for each in tombstones.read_all(view, good.key).values()} == {1, number}
    staged.remove(good.app_id)
    last = hold(case, staged, case.app(), first, number=4)
    gate.open()
    case.end(last.app_id)
    assert {each.number for each in tombstones.read_all(view, good.key).values()} == {4}
