"""Plans of jobs that share a machine: which take turns, which run alone, which could never run."""

from dataclasses import replace
from typing import Any

import pytest

from launcher.apply.approval import check_approved
from launcher.errors import BlockedError
from launcher.plan.codec import dumps, loads
from launcher.plan.model import Plan
from launcher.plan.recheck import recheck
from launcher.plan.reconcile import reconcile
from launcher.plan.step import Reason
from launcher.plan.turns import Room, with_turns
from launcher.specs import canonical
from launcher.specs.app import Resource
from launcher.specs.attempt import Attempt
from launcher.specs.launch import Caps, Launch
from launcher.turns.line import Limit
from launcher.turns.machine import Machine
from tests.unit.plan.world import attempt, job, lines, plan, world

HOLDER = "pid 99 on node1"
HERE = Room(machine=Machine(2.0, 16 * 1024, ("0",)), schedulers=frozenset({"local_cwd"}))
ELSEWHERE = "taken by apps of this LAUNCHER_HOME; set LAUNCHER_SLOTS to share a table"


def asking(name: str = "train", *, cpu: float = -1, memMB: int = -1, gpu: int = -1, **more: Any) -> Launch:
    """Return a job that asks for resources; further fields are of a launch or policies."""
    own = {key: more.pop(key) for key in ("max_parallel", "matrix", "caps") if key in more}
    launch = job(name, **more)
    [role] = launch.app.roles
    role = replace(role, resource=Resource(cpu=cpu, memMB=memMB, gpu=gpu))
    return replace(launch, app=replace(launch.app, roles=[role]), **own)


def sweep(count: int, **asked: Any) -> list[Launch]:
    return [asking(f"train-{n}", **asked) for n in range(count)]


def planned(launches: Launch | list[Launch], *attempts: Attempt, room: Room = HERE, **choices: Any) -> Plan:
    return with_turns(plan(launches, *attempts, room=room, **choices), room)


@pytest.mark.parametrize(("jobs", "output"), [
    (sweep(12, cpu=2), "12 jobs ask for 24 cores of 2: 1 at a time, in this order"),
    (sweep(5, cpu=1), "5 jobs ask for 5 cores of 2: 2 at a time, in this order"),
    (sweep(3, cpu=0.75), "3 jobs ask for 2.25 cores of 2: 2 at a time, in this order"),
    (sweep(2, cpu=64), "2 jobs ask for 128 cores of 2: 1 at a time, in this order"),
    (sweep(3, memMB=8192), "3 jobs ask for 24 GiB of memory of 16 GiB: 2 at a time, in this order"),
    (sweep(3, gpu=1), "3 jobs ask for 3 GPUs of 1: 1 at a time, in this order"),
    ([asking("a", cpu=2), asking("b", cpu=1)],
        "2 jobs ask for 3 cores of 2: as many at a time as fit, in this order"),
    (sweep(9, matrix="sweep", max_parallel=4), "9 jobs of sweep: 4 at a time, in this order"),
    (sweep(4, cpu=1, caps=Caps(cpu=1)),
        "4 jobs ask for 4 cores of 1 of project default: 1 at a time, in this order"),
    (sweep(4, caps=Caps(max_parallel=3)), "4 jobs of project default: 3 at a time, in this order"),
])  # fmt: skip
def test_jobs_that_together_ask_for_more_than_the_machine_has_take_turns(jobs, output):
    made = planned(jobs)
    assert made.turns == (output, ELSEWHERE)
    assert f"turns: {output}" in lines(made)


def at_engine(jobs: list[Launch], *, engine: Machine | None = None, **room: Any) -> Room:
    """Return the room for jobs whose watchers are on an engine of another machine."""
    there = frozenset(each.key for each in jobs)
    return replace(HERE, schedulers=frozenset(), on_engine=there, engine=engine, **room)


@pytest.mark.parametrize(("jobs", "output"), [
    (sweep(5, cpu=2), "5 jobs ask for 10 cores of 4 of the engine: 2 at a time, in this order"),
    (sweep(3, memMB=8192),
        "3 jobs ask for 24 GiB of memory of 8 GiB of the engine: 1 at a time, in this order"),
    (sweep(3, gpu=1), "3 jobs ask for 3 GPUs of 2 of the engine: 2 at a time, in this order"),
    (sweep(3, matrix="sweep", max_parallel=1), "3 jobs of sweep: 1 at a time, in this order"),
    (sweep(2, cpu=2), None),
])  # fmt: skip
def test_jobs_with_watchers_on_an_engine_share_its_machine(jobs: list[Launch], output: str | None) -> None:
    made = planned(jobs, room=at_engine(jobs, engine=Machine(4.0, 8192), engine_gpus=2))
    assert made.turns == (() if output is None else (output,))
    assert {step.notes for step in made.steps} == {()}


def test_jobs_share_nothing_with_those_of_an_engine() -> None:
    here, there = sweep(1, cpu=2), [asking("there", cpu=2, scheduler="local_docker")]
    room = replace(at_engine(there, engine=Machine(2.0, 8192)), schedulers=HERE.schedulers)
    assert planned([*here, *there], room=room).turns == ()


def test_jobs_of_an_engine_of_unknown_size_are_said_to_take_turns_there() -> None:
    jobs = sweep(2, cpu=64)
    made = planned(jobs, room=at_engine(jobs, supported=False))
    assert made.turns == ("jobs with a watcher on the engine take turns there, in this order",)
    assert planned(sweep(1), room=at_engine(sweep(1))).turns == ()


@pytest.mark.parametrize(("counted", "kind", "notes"), [
    (None, "create",
        ("the engine chooses the GPUs; LAUNCHER_GPUS says how many jobs may share in turn",)),
    (2, "hold", ()),
    (3, "create", ()),
])  # fmt: skip
def test_gpus_of_an_engine_count_where_they_are_given(counted, kind, notes):
    jobs = [asking(gpu=3)]
    [step] = planned(jobs, room=at_engine(jobs, engine=Machine(2.0, 8192), engine_gpus=counted)).steps
    assert (step.kind, step.notes) == (kind, notes)
    assert kind == "create" or "asks for 3 GPUs, and LAUNCHER_GPUS gives its engine 2" in str(step.reasons[0])


def test_the_limit_that_lets_the_fewest_jobs_run_is_named() -> None:
    assert planned(sweep(6, cpu=2, memMB=1, matrix="sweep", max_parallel=4)).turns[:-1] == (
        "6 jobs ask for 12 cores of 2: 1 at a time, in this order",
    )
    assert planned(sweep(6, cpu=0.5, matrix="sweep", max_parallel=2)).turns[:-1] == (
        "6 jobs of sweep: 2 at a time, in this order",
    )


def test_two_matrices_are_limited_by_themselves() -> None:
    jobs = [
        asking(f"{name}-{n}", matrix=name, max_parallel=most)
        for name, most in (("a", 1), ("b", 2))
        for n in range(3)
    ]
    assert planned(jobs).turns[:-1] == (
        "3 jobs of a: 1 at a time, in this order",
        "3 jobs of b: 2 at a time, in this order",
    )


@pytest.mark.parametrize("jobs", [
    sweep(2, cpu=1), sweep(1, cpu=64), sweep(9), sweep(4, matrix="sweep", max_parallel=4),
    sweep(9, cpu=2, queue=False), sweep(9, cpu=2, scheduler="elsewhere"),
])  # fmt: skip
def test_jobs_with_room_for_all_take_no_turns(jobs: list[Launch]) -> None:
    assert planned(jobs).turns == ()


NO_TURNS = replace(HERE, schedulers=frozenset(), supported=False)
OF_APPLY = replace(HERE, limits=(Limit("apply 1", apps=2, label="this apply"),))
MATRIX: dict[str, Any] = {"matrix": "sweep", "max_parallel": 2}
NOTES: dict[str, tuple[Room, dict[str, Any], str]] = {
    "more cores than the machine has: runs alone": (HERE, {"cpu": 64}, "asks for 64 cores of 2: runs alone"),
    "more memory than the machine has: runs alone": (HERE, {"cpu": 1, "memMB": 32768},
        "asks for 32 GiB of memory of 16 GiB: runs alone"),
    "more cores than its project may use: runs alone": (HERE, {"cpu": 2, "caps": Caps(cpu=1)},
        "asks for 2 cores of 1 of project default: runs alone"),
    "a matrix with a limit on another engine: no effect": (HERE, {"scheduler": "elsewhere", **MATRIX},
        "`max_parallel` has no effect: apps of elsewhere take no turns here"),
    "a matrix with a limit here: an effect": (HERE, MATRIX, ""),
    "a matrix with a limit on a system without turns: no note": (NO_TURNS, MATRIX, ""),
    "an apply with a limit on another engine: no effect": (OF_APPLY, {"scheduler": "elsewhere"},
        "--parallel has no effect: apps of elsewhere take no turns here"),
}  # fmt: skip


@pytest.mark.parametrize("case", NOTES)
def test_a_job_whose_turn_is_unlike_that_of_others_has_a_note(case: str) -> None:
    room, asked, note = NOTES[case]
    [step] = planned(asking(**asked), room=room).steps
    assert step.notes == ((note,) if note else ())


def test_jobs_whose_turns_are_in_another_order_than_the_plan_say_so() -> None:
    made = planned(list(reversed(sweep(2, cpu=2))))
    assert [step.key.job for step in made.steps] == ["train-0", "train-1"]
    assert made.turns[0] == "2 jobs ask for 4 cores of 2: 1 at a time, in the order of the file"


def test_a_note_names_a_system_without_turns() -> None:
    made = planned(sweep(3, cpu=2, gpu=9), room=NO_TURNS)
    assert made.turns == ("apps take turns on Linux only: here they all start at once",)
    assert made.counts()["create"] == 3
    assert planned([asking()], attempt(asking(), "running"), room=NO_TURNS).turns == ()


NEVER = "asks for 2 GPUs, and this machine has 1"


@pytest.mark.parametrize("before", [(), ("succeeded",), ("failed",), ("running",)])
def test_a_job_that_asks_for_more_gpus_than_there_are_is_held(before: tuple[str, ...]) -> None:
    wanted = asking(gpu=2)
    made = planned(wanted, *(attempt(job("train", "old"), state) for state in before))
    [step] = made.steps
    assert (step.kind, step.blocked, step.reasons[0].code) == ("hold", "over_capacity", "over_capacity")
    assert str(step).startswith(f"!   default/train: {NEVER}; ")
    assert made.is_empty


@pytest.mark.parametrize(("launch", "detail"), [
    (asking(gpu=1, caps=Caps(gpus=0)), "asks for 1 GPU, and project default may have none"),
    (replace(asking(gpu=1), caps=Caps(gpus=1)), None), (asking(gpu=2, queue=False), None),
    (asking(gpu=2, scheduler="elsewhere"), None), (asking(cpu=99), None),
])  # fmt: skip
def test_the_cap_of_a_project_limits_local_jobs_and_not_jobs_of_other_engines(launch, detail):
    [step] = planned(launch).steps
    assert step.kind == ("create" if detail is None else "hold")
    assert detail is None or step.reasons[0].detail == detail


@pytest.mark.parametrize(("launch", "kind"), [
    (asking(cpu=4.5), "hold"), (asking(cpu=4.5, queue=False), "hold"), (asking(cpu=4), "create"),
    (asking(cpu=4.5, scheduler="elsewhere"), "create"),
])  # fmt: skip
def test_a_job_whose_replica_asks_for_more_cores_than_its_engine_gives_is_held(launch, kind):
    [step] = planned(launch, room=replace(HERE, most_cores={"local_cwd": 4.0})).steps
    assert step.kind == kind
    output = "!   default/train: roles.trainer.resource.cpu = 4.5 is more than the 4 cores of its engine; "
    assert str(step).startswith(output) == (kind == "hold")


def test_an_interrupted_submission_is_not_resumed_without_its_gpus() -> None:
    wanted = asking(gpu=2)
    [step] = planned(wanted, attempt(wanted, "created")).steps
    assert (step.kind, step.blocked) == ("hold", "over_capacity")


# waiting or queued, in the table of plan-apply


# saved plans


def test_a_saved_plan_has_the_limits_of_its_jobs() -> None:
    caps = Caps(cpu=1.5, memory_mb=512, gpus=0)
    launch = asking(cpu=2, matrix="sweep", max_parallel=4, caps=caps, queue=False)
    made = planned([launch, *sweep(3, cpu=2)]).stamped(plan_id="p", created_at=0)
    back = loads(dumps(made))
    assert back.turns == made.turns != ()
    found = next(step.launch for step in back.steps if step.key.job == "train")
    assert (found.matrix, found.max_parallel, found.caps, found.lifecycle.queue) == (
        "sweep",
        4,
        launch.caps,
        False,
    )


def test_a_saved_plan_with_a_job_without_its_gpus_stays_blocked() -> None:
    made = planned(asking(gpu=2)).stamped(plan_id="p", created_at=0)
    checked = recheck(loads(dumps(made)), world(), now=0)
    assert checked.stale == ()
    assert checked.plan.steps[0].blocked == "over_capacity"


def test_a_job_whose_request_is_refused_is_held_and_the_plan_of_it_stays_blocked() -> None:
    launch = asking(cpu=2)
    why = Reason("refused", detail="slurm refuses the request: no")
    made = reconcile([launch], world(), refused={launch.key: why})
    [step] = made.steps
    assert (step.kind, step.blocked, step.reasons[0]) == ("hold", "refused", why)
    checked = recheck(loads(dumps(made.stamped(plan_id="p", created_at=0))), world(), now=0)
    assert (checked.stale, checked.plan.steps[0].blocked) == ((), "refused")
    with pytest.raises(BlockedError, match=r"^train: slurm refuses the request: no\n"):
        check_approved(checked.plan, allow_destructive=True)


def test_limits_are_no_part_of_the_document() -> None:
    plain = canonical.document(asking(cpu=2))
    limited = asking(cpu=2, matrix="sweep", max_parallel=4, caps=Caps(cpu=1), queue=False)
    assert canonical.document(limited) == plain
