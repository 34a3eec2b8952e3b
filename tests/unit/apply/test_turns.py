"""What an apply asks of this machine for its jobs, in the order of the plan; jobs that wait in line."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import launcher
from launcher.apply import make_plan
from launcher.apply.dry_run import bind_plan
from launcher.apply.engines import Engines
from launcher.apply.events import Events, Outcome
from launcher.apply.execute import execute
from launcher.apply.follow import follow
from launcher.apply.submit import Workplace
from launcher.apply.turns import Turns
from launcher.errors import StateError
from launcher.plan.step import Guard, Step
from launcher.schedulers.local.scheduler import LocalScheduler
from launcher.schedulers.registry import open_store
from launcher.schedulers.staged import Reservation
from launcher.specs.attempt import Attempt, StoodOn
from launcher.specs.launch import Caps
from launcher.state.store import Store
from launcher.turns.line import MACHINE, Ask
from launcher.turns.machine import Machine, slots_table, table_folder
from launcher.turns.table import Place


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch, launcher_home: Path) -> Iterator[Engines]:
    """The engines of a machine with two cores."""
    monkeypatch.setattr(LocalScheduler, "on_this_machine", lambda _: True)
    monkeypatch.setattr("launcher.apply.turns.machine", lambda **_: Machine(2.0, 4096))
    with Engines() as made:
        yield made


@pytest.fixture
def store(launcher_home: Path) -> Iterator[Store]:
    with open_store() as opened:
        yield opened


def plan(folder: Path, engines: Engines, *jobs: str, resource: object = None) -> list[Step]:
    """Steps that create jobs which each ask for one core, or for `resource`."""
    launches = []
    for job in jobs:
        role = {"entrypoint": "true", "resource": {"cpu": 1} if resource is None else resource}
        path = folder / f"{job}.launcher.yaml"
        path.write_text(f"version: 1\nname: {job}\nroles: {{main: {json.dumps(role)}}}\n")
        launches.append(launcher.load_job(str(path)))
    return list(bind_plan(make_plan(launches), engines).steps)


def asks(turns: Turns, steps: list[Step]) -> list[Ask]:
    found = [turns.of(step) for step in steps]
    return [turn.ask for turn in found if turn is not None]


def in_line(step: Step, number: int) -> Place:
    """Return the place in line of an attempt before the attempt of `step`."""
    place = Place(Ask(f"{step.app_id}-before", number=number, table=table_folder(), cpu=1))
    place.look()
    return place


def before(step: Step) -> Guard:
    return Guard(attempt=1, state="queued", app_id=f"{step.app_id}-before", scheduler="local_cwd")


def test_numbers_follow_the_order_of_the_plan(tmp_path: Path, engines: Engines) -> None:
    steps = plan(tmp_path, engines, *(f"job-{n}" for n in range(12)))
    drawn = asks(Turns(steps, engines), steps)
    assert [ask.app for ask in drawn] == [step.app_id for step in steps]
    numbers = [ask.number for ask in drawn]
    assert numbers == [*range(numbers[0], numbers[0] + 12)]


def test_a_job_is_numbered_behind_the_jobs_that_it_needs(tmp_path: Path, engines: Engines) -> None:
    first, second = plan(tmp_path, engines, "a", "b")
    needed = StoodOn("b", second.number, 1, second.app_id, "local_cwd")
    steps = [replace(first, needs=(needed,), after=("b",)), second]
    of_a, of_b = asks(Turns(steps, engines), steps)
    assert of_b.number < of_a.number


def test_the_ask_of_a_job_is_the_sum_over_its_replicas(tmp_path: Path, engines: Engines) -> None:
    (step,) = plan(tmp_path, engines, "a", resource={"cpu": 1.5, "memory": "1GiB"})
    [ask] = asks(Turns([step], engines), [step])
    assert (ask.app, ask.cpu, ask.memory_mb, ask.gpus) == (step.app_id, 1.5, 1024, 0)
    assert ask.table == slots_table()
    [limit] = ask.limits
    assert (limit.group, limit.cpu, limit.memory_mb) == (MACHINE, 2.0, 4096)


def test_a_job_without_resources_takes_no_turn(tmp_path: Path, engines: Engines) -> None:
    steps = plan(tmp_path, engines, "a", resource={})
    assert asks(Turns(steps, engines), steps) == []
    assert not Path(slots_table()).exists()


def test_a_job_of_another_engine_takes_no_turn(tmp_path, engines, monkeypatch):
    monkeypatch.setattr(LocalScheduler, "on_this_machine", lambda _: False)
    steps = plan(tmp_path, engines, "a")
    assert asks(Turns(steps, engines), steps) == []


def test_a_matrix_and_a_project_limit_how_many_jobs_run_at_once(tmp_path: Path, engines: Engines) -> None:
    (step,) = plan(tmp_path, engines, "a", resource={})
    assert step.launch is not None
    launch = replace(step.launch, matrix="sweep", max_parallel=4, caps=Caps(max_parallel=9))
    [ask] = asks(Turns([replace(step, launch=launch)], engines), [step])
    assert [(each.group, each.apps, each.label) for each in ask.limits[1:]] == [
        ("project default", 9, "project default"),
        ("matrix default/default/sweep", 4, "sweep"),
    ]


def test_a_job_with_queue_off_takes_its_share_at_once(tmp_path: Path, engines: Engines) -> None:
    (step,) = plan(tmp_path, engines, "a")
    lifecycle = replace(step.launch.lifecycle, queue=False)
    [ask] = asks(Turns([replace(step, launch=replace(step.launch, lifecycle=lifecycle))], engines), [step])
    assert ask.at_once


def test_a_table_that_cannot_be_written_is_an_error_before_anything_is_submitted(tmp_path, engines, store):
    steps = plan(tmp_path, engines, "a")
    Path(table_folder(), "last").mkdir()
    with pytest.raises(StateError, match=r"cannot write .*slots"):
        run(steps, engines, store, [])
    assert store.live_attempts() == []


@pytest.mark.parametrize("field", ["stops", "withdraws"])
def test_a_job_inherits_the_place_of_the_app_that_it_replaces(tmp_path, engines, field):
    first, second = plan(tmp_path, engines, "a", "b")
    place = in_line(second, number=7)
    steps = [first, replace(second, **{field: (before(second),)})]
    of_a, of_b = asks(Turns(steps, engines), steps)
    assert of_b.number == 7 < of_a.number
    place.leave()


def test_a_dead_ticket_is_not_inherited(tmp_path: Path, engines: Engines) -> None:
    (step,) = plan(tmp_path, engines, "a")
    place = in_line(step, number=7)
    place.release()  # as the end of its process does
    [ask] = asks(Turns([replace(step, withdraws=(before(step),))], engines), [step])
    assert ask.number > 7


@pytest.mark.parametrize("others", [0, 1])
def test_jobs_that_all_fit_are_still_ordered_behind_the_apps_of_others(tmp_path, engines, others):
    first, second = plan(tmp_path, engines, "a", "b")
    places = [in_line(first, number) for number in range(1, others + 1)]
    turns = Turns([first, second], engines)
    turn = turns.of(second)
    assert turn.before is (turns.of(first) if others else None)
    for place in places:
        place.leave()


def test_an_attempt_that_runs_in_part_is_completed_at_once(tmp_path: Path, engines: Engines) -> None:
    (step,) = plan(tmp_path, engines, "a")
    latest = Attempt(
        key=step.key, number=1, app_id=step.app_id, scheduler="local_cwd", digest=step.digest, document={},
        state="running", unstarted=1,
    )  # fmt: skip
    step = replace(step, kind="resume", latest=latest)
    assert [ask.at_once for ask in asks(Turns([step], engines), [step])] == [True]


@pytest.mark.slow
def test_a_job_that_cannot_be_submitted_holds_up_no_other(tmp_path, engines, store, monkeypatch):
    steps = plan(tmp_path, engines, *(f"job-{n}" for n in range(12)))
    broken = steps[0].app_id, steps[5].app_id
    create = LocalScheduler.create

    def failing(self: LocalScheduler, reservation: Reservation, app: object, cfg: object) -> None:
        if reservation.app_id in broken:
            raise launcher.LauncherError("no such folder")
        create(self, reservation, app, cfg)

    monkeypatch.setattr(LocalScheduler, "create", failing)
    outcomes = run(steps, engines, store, [])
    assert [bool(outcome.error) for outcome in outcomes] == [n in (0, 5) for n in range(12)]


def run(
    steps: list[Step], engines: Engines, store: Store, events: list[dict[str, object]], *, wait: bool = True
) -> tuple[Outcome, ...]:
    """Carry out the steps; with `wait`, wait until their apps have ended."""
    report = Events(lambda event: events.append(dict(event)))
    outcomes = execute(steps, plan=make_plan([]), at=Workplace(engines=engines, store=store, events=report))
    return follow(outcomes, engines=engines, store=store, events=report) if wait else outcomes


@pytest.mark.slow
def test_jobs_without_resources_load_no_module_of_turns(tmp_path: Path, launcher_home: Path) -> None:
    (tmp_path / "a.launcher.yaml").write_text("version: 1\nname: a\nroles: {main: {entrypoint: 'true'}}\n")
    script = (
        "import sys; from launcher.cli.main import main\n"
        "assert main(['apply', 'a.launcher.yaml', '--yes', '--wait']) == 0\n"
        "assert not [name for name in sys.modules if name.startswith('launcher.turns')]"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
