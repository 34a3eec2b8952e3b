"""Apps in containers take turns: their order, their GPUs, and kills and cancels of apps in line."""

import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from launcher.errors import ReservedError, SchedulerError, StartError
from launcher.paths import token
from launcher.schedulers.docker import record
from launcher.schedulers.docker.journal import Journal
from launcher.schedulers.leftovers import start_clearing
from launcher.specs import AppDef, AppState, Resource
from launcher.specs.attempt import Attempt
from launcher.turns.line import HOLDS, MACHINE, QUEUED, Ask, Limit
from launcher.turns.table import Place, draw, summon, tickets
from tests import processes
from tests.contract.conftest import DockerCase, Gate
from tests.contract.test_holding import ended, needing, prepare
from tests.contract.test_staged import attempt_of
from tests.engines.docker import Daemon, Thing
from tests.engines.proxy import Proxy, everything
from tests.kill_at import WATCHER, first_run
from tests.lanes import EVERY_ACT, thinned
from tests.scenarios.docker_engine.sweeps import (
    client,
    containers,
    dying,
    in_parts,
    killed_client,
    rests,
    settle,
    state_of,
    swept,
)
from tests.waiting import until

ONE_CORE = Resource(cpu=1, gpu=0, memMB=-1)


class Table:
    """A table of tickets for a machine of two cores and four GPUs."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "table")
        self.gpus = str(folder / "gpus")
        for each in (self.path, self.gpus):
            os.makedirs(each)

    def ask(self, app_id: str, *, cpu: float = 1, gpus: int = 0) -> Ask:
        return Ask(
            app_id,
            table=self.path,
            number=draw([self.path], 1),
            cpu=cpu,
            gpus=gpus,
            devices=["0", "1", "2", "3"] if gpus else (),
            gpu_table=self.gpus if gpus else "",
            limits=[Limit(MACHINE, cpu=2)],
        )

    def seen(self) -> dict[str, str]:
        """Return the state of each ticket by app id, in order."""
        return {each.app: each.state for each in tickets(self.path)}

    def hold(self, cpu: float = 2) -> Place:
        """Return a place that this test holds."""
        place = Place(self.ask("held-by-test", cpu=cpu))
        assert place.look().starts
        return place


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def submit(
    case: DockerCase,
    table: Table,
    app: AppDef,
    job: str = "job",
    number: int = 1,
    *needs: Attempt,
    **wanted: Any,
) -> tuple[Attempt, str]:
    """Submit an attempt that takes a turn; return it and the state as which it was accepted."""
    staged: Any = case.scheduler
    attempt = attempt_of(case, app, number, case.key(job))
    return attempt, resubmit(staged, table, app, attempt, *needs, **wanted)


def resubmit(staged: Any, table: Table, app: AppDef, attempt: Attempt, *needs: Attempt, **wanted: Any) -> str:
    reservation = staged.reserve(attempt)
    reservation.turn, reservation.waits_for = table.ask(attempt.app_id, **wanted), needing(*needs)
    staged.create(reservation, app, {})
    staged.start(reservation)
    return str(reservation.accepted)


def replicas(attempts: Iterable[Attempt]) -> list[Thing]:
    return [one for each in attempts for one in containers(each) if one.labels["launcher.part"] == "replica"]


def running(attempts: Iterable[Attempt]) -> list[str]:
    return [one.labels["launcher.app-id"] for one in replicas(attempts) if one.state == "running"]


def test_an_attempt_enters_the_line_after_its_needs_and_is_shown_as_queued_by_every_reader(
    case, staged, table, gate, launcher_home, tmp_path, monkeypatch
):
    first = prepare(case, staged, gate.script)
    held = table.hold()
    attempt, accepted = submit(case, table, case.app(), "train", 1, first)
    assert accepted == "waiting"
    assert table.seen() == {"held-by-test": HOLDS}
    gate.open()
    until(lambda: state_of(case, attempt) == "queued")
    assert table.seen() == {"held-by-test": HOLDS, attempt.app_id: QUEUED}
    found = staged.attempt(attempt.app_id)
    assert (found.state, found.message) == ("queued", "waits for its turn")
    assert found.owner.startswith(f"pid {processes.supervisors(str(launcher_home))[attempt.app_id]} ")
    described = staged.describe(attempt.app_id)
    assert (described.state, described.msg) == (AppState.PENDING, "waits for its turn")
    assert staged.record(attempt.app_id).state == "queued"
    [refreshed] = staged.refresh([attempt.app_id])
    assert refreshed.state == "queued"
    with monkeypatch.context() as there:
        there.setenv("LAUNCHER_HOME", str(tmp_path / "second"))
        other: Any = case.another()
        until(lambda: other.attempt(attempt.app_id) == found)
        with pytest.raises(ReservedError, match="queued"):
            other.reserve(attempt)
        assert replicas([attempt]) == []
    held.leave()
    assert ended(case, staged, attempt)[0] == "succeeded"


@pytest.mark.parametrize("how", ["withdraw", "cancel", "prune"])
def test_a_withdrawn_cancelled_or_pruned_attempt_leaves_the_line(case, staged, table, how):
    held = table.hold()
    first, _ = submit(case, table, case.app(f"touch {case.shared}/ran"), "first")
    second, _ = submit(case, table, case.app(), "second")
    if how == "withdraw":
        assert staged.withdraw(first.app_id)
        assert ended(case, staged, first) == ("skipped", "withdrawn")
    elif how == "prune":
        Daemon().remove(containers(first))
        assert ended(case, staged, first) == ("cancelled", "its reservation was removed")
    else:
        staged.cancel(first.app_id)
        assert ended(case, staged, first)[0] == "cancelled"
    assert table.seen() == {"held-by-test": HOLDS, second.app_id: QUEUED}
    held.leave()
    assert ended(case, staged, second)[0] == "succeeded"
    assert not (case.shared / "ran").exists()
    assert rests(case) == []


def test_a_replacement_takes_the_share_of_the_attempt_that_it_replaces(case, staged, table, gate):
    """Apply creates the replacement, stops the old attempt, then starts the replacement without a wait."""
    first, _ = submit(case, table, case.app(gate.script), "job", 1, cpu=2)
    app = case.app()
    second = attempt_of(case, app, 2, case.key("job"))
    reservation = staged.reserve(second)
    reservation.turn = table.ask(second.app_id, cpu=2)
    staged.create(reservation, app, {})
    assert table.seen() == {first.app_id: HOLDS, second.app_id: QUEUED}
    staged.cancel(first.app_id, grace_s=0)
    staged.start(reservation)
    assert reservation.accepted == "running"
    assert ended(case, staged, second)[0] == "succeeded"
    assert table.seen() == {}
    assert rests(case) == []


def test_an_attempt_that_cannot_be_created_leaves_the_line(case: DockerCase, table: Table) -> None:
    held = table.hold()
    with pytest.raises(StartError, match="no executable `nonsense`"):
        submit(case, table, AppDef("app", [replace(case.role("r", ""), entrypoint="nonsense")]))
    assert table.seen() == {"held-by-test": HOLDS}
    assert rests(case) == []
    held.leave()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("part", "is_free"), thinned([(0, True), (0, False), (1, False), (1, True)], every=2)
)
def test_an_attempt_succeeds_when_its_client_is_killed_at_any_act(case, staged, table, part, is_free):
    for at in swept(part):
        held = table.hold(cpu=0 if is_free else 2)
        ran = case.shared / f"ran{at}"
        app = case.app(f"echo once >>{ran}", replicas=2)
        attempt = attempt_of(case, app, key=case.key(f"job{at}"))
        acts = killed_client(attempt, at, ask=table.ask(attempt.app_id))
        settle(case, attempt, partial(resubmit, staged, table, app, attempt))
        assert is_free or not ran.exists()
        held.leave()
        assert ended(case, staged, attempt)[0] == "succeeded", at
        assert ran.read_text().split() == ["once", "once"], at
        assert table.seen() == {}
        if acts:
            break
    assert at > (20 if EVERY_ACT else 10)
    assert rests(case) == []


def is_queued(path: str) -> bool:
    """Return whether a request creates the container that represents an attempt in line."""
    return "/containers/create?name=" in path and path.endswith(".queued")


def test_an_attempt_is_accepted_though_its_client_is_killed_while_the_engine_is_slow(
    case, table, tmp_path, monkeypatch
):
    """A container that the engine makes when its client is dead names no watcher that has removed the app."""
    staged, held, ran = case.scheduler, table.hold(), case.shared / "ran"
    app = case.app(f"echo once >>{ran}")
    attempt = attempt_of(case, app, key=case.key("job"))
    argv = client(attempt, ask=table.ask(attempt.app_id))
    with Proxy(tmp_path / "p.sock", everything) as proxy, monkeypatch.context() as behind:
        behind.setenv("DOCKER_HOST", proxy.host)
        other = case.start(case.app("exec sleep 1000"))
        proxy.delay_s = lambda _, path: 5.0 if is_queued(path) else 0.0
        with subprocess.Popen(argv) as process:
            until(lambda: any(map(is_queued, proxy.seen)))
            process.kill()
        until(lambda: [each.name.endswith(".queued") for each in containers(attempt)] == [True])
        settle(case, attempt, partial(resubmit, staged, table, app, attempt))
        assert not ran.exists()
        held.leave()
        assert ended(case, staged, attempt)[0] == "succeeded"
        assert ran.read_text().split() == ["once"]
        case.scheduler.cancel(other, grace_s=0)
        case.scheduler.close()  # its next connection is to the engine itself


def test_an_attempt_whose_container_is_refused_leaves_nothing_and_says_why(
    case, table, tmp_path, monkeypatch
):
    held = table.hold()
    with (
        Proxy(tmp_path / "p.sock", lambda _, path: not is_queued(path)) as proxy,
        monkeypatch.context() as behind,
    ):
        behind.setenv("DOCKER_HOST", proxy.host)
        with pytest.raises(SchedulerError, match=r"cannot wait: .*: this proxy lets nothing be written"):
            submit(case, table, case.app("true"), "queued")
        case.scheduler.close()  # its next connection is to the engine itself
    held.leave()
    assert table.seen() == {}
    assert rests(case) == []
    assert record.app_ids() == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
@in_parts(0)
def test_an_attempt_succeeds_when_its_watcher_is_killed_at_any_act(
    case, staged, table, launcher_home, monkeypatch, part
):
    """The attempt has needs: its watcher does all that the watcher of an attempt without needs does."""
    need = prepare(case, staged, "true")
    case.end(need.app_id)
    states = set[str]()
    for at in swept(part):
        held = table.hold()
        ran = case.shared / f"ran{at}"
        app = case.app(f"echo once >>{ran}", replicas=2)
        attempt = attempt_of(case, app, key=case.key(f"job{at}"))
        with monkeypatch.context() as armed:
            first_run(WATCHER, dying(at), armed.setattr)
            with suppress(SchedulerError):  # its watcher has ended
                resubmit(staged, table, app, attempt, need)
        until(lambda a=attempt: state_of(case, a) != "waiting" or not staged.attempt(a.app_id).owner)
        held.leave()
        if (watcher := processes.supervisors(str(launcher_home)).get(attempt.app_id)) is not None:
            assert processes.gone([watcher], timeout_s=60)
        until(lambda: all(each.is_left for each in tickets(table.path)))  # when its last thread has ended
        states.add(state_of(case, attempt))
        was_killed = (
            state_of(case, attempt) != "succeeded"
            or not (record.journal(record.folder(attempt.app_id)) or Journal()).outcome
        )
        settle(case, attempt, partial(resubmit, staged, table, app, attempt))
        assert ended(case, staged, attempt)[0] == "succeeded", at
        assert ran.read_text().split() == ["once", "once"], at
        if left := tickets(table.path):  # it was killed when its containers had ended
            os.waitpid(start_clearing(left), 0)
        until(lambda: table.seen() == {})
        if not was_killed:
            break
    assert {"none", "queued"} <= states
    assert states & {"running", "succeeded"}  # the job is short: it may have ended when its state is read
    assert rests(case) == []


DIES_WITH_ITS_SHARE = """
import os
from launcher.turns.table import Place
def look(self, real=Place.look):
    decision = real(self)
    if decision.starts:
        os.kill(os.getpid(), 9)
    return decision
Place.look = look
"""


def test_an_app_in_line_gets_the_share_of_a_watcher_that_died_before_any_start(
    case: DockerCase, staged: Any, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No replica of that app has run, and no command has to observe it first."""
    held = table.hold()
    with monkeypatch.context() as armed:
        first_run(WATCHER, DIES_WITH_ITS_SHARE, armed.setattr)
        first, _ = submit(case, table, case.app(), "first", cpu=2)
    second, _ = submit(case, table, case.app(), "second", cpu=2)
    held.leave()
    assert ended(case, staged, second)[0] == "succeeded"
    assert state_of(case, first) == "queued"
    assert not staged.attempt(first.app_id).owner
    until(lambda: table.seen() == {})


def devices(attempt: Attempt) -> list[list[str]]:
    """Return the GPUs that each replica's container asks for."""
    bodies = [Daemon().inspect(one.id)["HostConfig"] for one in replicas([attempt])]
    return sorted(each["DeviceIDs"] for body in bodies for each in body["DeviceRequests"])


def create_with_gpus(case: DockerCase, table: Table, job: str, gpus: int, count: int) -> tuple[Any, Attempt]:
    """Create, without starting it, an app whose replicas ask for `gpus` GPUs each: this engine has none."""
    staged: Any = case.scheduler
    app = case.app(replicas=count, resource=Resource(cpu=0, gpu=gpus, memMB=-1))
    attempt = attempt_of(case, app, 1, case.key(job))
    reservation = staged.reserve(attempt)
    reservation.turn = table.ask(attempt.app_id, cpu=0, gpus=gpus * count)
    staged.create(reservation, app, {})
    return reservation, attempt


def test_a_turn_deals_gpus_to_replicas_by_id(case: DockerCase, staged: Any, table: Table) -> None:
    one, first = create_with_gpus(case, table, "first", 1, 2)
    two, second = create_with_gpus(case, table, "second", 2, 1)
    assert devices(first) == [["0"], ["1"]]
    assert devices(second) == [["2", "3"]]
    for each in (one, two):
        staged.abort(each)
    assert table.seen() == {}
    assert tickets(table.gpus) == []


def test_an_attempt_in_line_gets_its_gpus_when_its_turn_comes(case, staged, table):
    """This engine has no GPUs, so that the attempt is created and then fails to start."""
    other = Place(table.ask("other", cpu=0, gpus=3))
    assert other.look().dealt == ("0", "1", "2")
    reservation, attempt = create_with_gpus(case, table, "job", 2, 1)
    assert replicas([attempt]) == []
    staged.start(reservation)
    assert reservation.accepted == "queued"
    other.leave()
    state, message = ended(case, staged, attempt)
    assert (state, "GPU" in message or "device" in message) == ("failed", True)
    assert devices(attempt) == [["0", "1"]]


# -- apps without a job -----------------------------------------------------------------------------------


def test_run_takes_its_share_of_the_machine_at_once(case, monkeypatch):
    from launcher.turns.machine import slots_table

    gate = Gate(case.shared / "gate")
    wanted = Resource(cpu=1000, gpu=0, memMB=-1)
    scheduler: Any = case.scheduler
    info = scheduler.submit_dryrun(case.app(gate.script, resource=wanted), {})
    for each in info.request.containers:
        each.kwargs.pop("nano_cpus")  # the engine refuses more cores than it has
    apps = [scheduler.schedule(info) for _ in range(2)]
    assert {each.app: each.state for each in tickets(slots_table())} == dict.fromkeys(apps, HOLDS)
    gate.open()
    for each in apps:
        assert case.end(each).state is AppState.SUCCEEDED
    assert tickets(slots_table()) == []


def in_line(case: DockerCase, table: Table) -> tuple[Any, str, Place]:
    """Return an app without a job that waits in line behind a place that this test holds."""
    from launcher.turns.machine import table_folder

    table.path = table_folder()
    held = table.hold(cpu=1)
    scheduler: Any = case.another(detach=False)
    scheduler.in_turn = True
    app = case.app(f"touch {case.shared}/ran", resource=Resource(cpu=1000, gpu=0, memMB=-1))
    info = scheduler.submit_dryrun(app, {})
    info.request.containers[0].kwargs.pop("nano_cpus")
    app_id = scheduler.schedule(info)
    assert table.seen() == {"held-by-test": HOLDS, app_id: QUEUED}
    assert scheduler.describe(app_id).state is AppState.PENDING
    return scheduler, app_id, held


def test_an_app_without_a_job_waits_in_line(case: DockerCase, table: Table) -> None:
    scheduler, app_id, held = in_line(case, table)
    assert not (case.shared / "ran").exists()
    held.leave()
    assert scheduler.wait(app_id).state is AppState.SUCCEEDED
    assert (case.shared / "ran").exists()
    scheduler.close()
    assert table.seen() == {}


def test_start_now_starts_an_app_in_line_at_once(case: DockerCase, table: Table) -> None:
    scheduler, app_id, held = in_line(case, table)
    assert summon(table.path, [app_id], token())
    assert scheduler.wait(app_id).state is AppState.SUCCEEDED
    assert table.seen() == {"held-by-test": HOLDS}
    held.leave()
    scheduler.close()


ATTACHED = """
import os, sys
from launcher.schedulers import get_scheduler
from launcher.specs.app import AppDef, Resource, Role
scheduler = get_scheduler("local_docker", sys.argv[2], detach=False)
scheduler.in_turn = True
role = Role("r", sys.argv[1], entrypoint="true", resource=Resource(cpu=1000, gpu=0, memMB=-1))
info = scheduler.submit_dryrun(AppDef("app", [role]), {})
info.request.containers[0].kwargs.pop("nano_cpus")
print(scheduler.schedule(info), flush=True)
os.kill(os.getpid(), 9)
"""


def test_an_attached_app_in_line_ends_with_its_killed_client(case: DockerCase, table: Table) -> None:
    from launcher.turns.machine import table_folder

    table.path = table_folder()
    held = table.hold(cpu=1)
    argv = [sys.executable, "-c", ATTACHED, case.image, case.session]
    app_id = subprocess.run(argv, check=False, stdout=subprocess.PIPE, text=True).stdout.strip()
    assert case.end(app_id).state is AppState.CANCELLED
    until(lambda: table.seen() == {"held-by-test": HOLDS})
    held.leave()
    assert rests(case) == []


PLAIN = """
import sys
from launcher.schedulers import get_scheduler
from launcher.specs.app import AppDef, Resource, Role
scheduler = get_scheduler("local_docker", sys.argv[2], detach=False)
role = Role("r", sys.argv[1], entrypoint="true", resource=Resource(cpu=-1, gpu=-1, memMB=-1))
app_id = scheduler.schedule(scheduler.submit_dryrun(AppDef("app", [role]), {}))
print([name for name in sys.modules if name.startswith("launcher.turns")], scheduler.wait(app_id).state.name)
scheduler.close()
"""


def test_an_app_without_resources_imports_no_module_of_turns(case: DockerCase) -> None:
    argv = [sys.executable, "-c", PLAIN, case.image, case.session]
    assert subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout == "[] SUCCEEDED\n"


@pytest.mark.parametrize(
    ("host", "is_here"),
    [("unix:///run/docker.sock", True), ("tcp://127.0.0.1:2375", False), ("ssh://me@there", False)],
)
def test_apps_take_turns_only_on_an_engine_of_this_machine(case, monkeypatch, host, is_here):
    scheduler: Any = case.another()
    with monkeypatch.context() as there:
        there.setenv("DOCKER_HOST", host)
        assert scheduler.on_this_machine() is is_here
        notes = scheduler.submit_dryrun(case.app(resource=ONE_CORE), {}).request.notes
        assert any("take no turns" in note for note in notes) is not is_here
        assert scheduler.submit_dryrun(case.app(), {}).request.notes == []
