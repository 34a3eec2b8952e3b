"""Which jobs of matrices are submitted at once, and what the plan says of the other ones."""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from launcher.apply.batches import batches_of, with_notes
from launcher.apply.engines import Engines
from launcher.apply.events import Events
from launcher.apply.submit import Workplace, submit
from launcher.errors import SchedulerError
from launcher.plan.model import Plan
from launcher.plan.step import Step
from launcher.specs import AppDef
from launcher.specs.jobkey import JobKey
from launcher.specs.launch import Launch

ALONE = "submitted as a job of its own: "


class World:
    """Steps that start jobs, and an engine whose arrays have at most `most` tasks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, most: int = 1000) -> None:
        self.steps: list[Step] = []
        self._engines = Engines()
        batches = SimpleNamespace(most=lambda cfg: most, traits=lambda request: request)
        monkeypatch.setattr(self._engines, "get", lambda name: SimpleNamespace(batches=batches))

    def matrix(
        self,
        name: str,
        *jobs: str,
        traits: Mapping[str, str] | None = None,
        max_parallel: int | None = None,
        **needs: str,
    ) -> None:
        """A matrix `name` of jobs. needs: job → the jobs that it waits for; traits: job → its option cpus."""
        for job in jobs:
            key = JobKey("p", "default", job)
            about = {"key": key, "app": AppDef(job, []), "root": "/", "file": job, "origin": ""}
            launch = Launch(**about, scheduler="s", matrix=name, max_parallel=max_parallel)
            info = SimpleNamespace(request={"cpus": (traits or {}).get(job, "1")})
            bound: Any = SimpleNamespace(info=info, launch=launch, cfg={})
            after = tuple(needs.get(job, "").split())
            step = Step(key=key, kind="create", reasons=(), launch=launch, bound=bound, after=after)
            self.steps.append(step)

    def groups(self) -> list[list[str]]:
        """Return the jobs of each batch."""
        found = batches_of(self.steps, Plan(steps=tuple(self.steps)), self._engines, ())
        return sorted([step.key.job for step in batch.steps] for batch in found)

    def notes(self) -> dict[str, str]:
        plan = with_notes(Plan(steps=tuple(self.steps)), self._engines)
        return {step.key.job: "; ".join(step.notes) for step in plan.steps if step.notes}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


T = "train: t0 t1"
BATCHES = {
    "those that each wait for one job of a matrix": ("eval: e0<t0 e1<t1; " + T, "e0 e1|t0 t1", {}),
    "those that wait for the same jobs": (": prepare; eval: a<prepare+other b<prepare+other", "a b", {}),
    "those that wait for one job of a matrix and all for another job": (
        ": prepare; train: t0<prepare t1<prepare; eval: e0<prepare+t0 e1<prepare+t1",
        "e0 e1|t0 t1",
        {},
    ),
    "none that waits for other jobs than its matrix": (
        T + "; eval: e0 e1 e2<live-7",
        "e0 e1|t0 t1",
        {"e2": f"{ALONE}it waits for live-7"},
    ),
    "not the only one that waits for nothing": (
        ": prepare; eval: a b<prepare c<prepare",
        "b c",
        {"a": f"{ALONE}b waits for prepare"},
    ),
    "none that each wait for two jobs of their own": (
        T + "; data: d0 d1; eval: e0<d0+t0 e1<d1+t1",
        "d0 d1|t0 t1",
        {f"e{n}": f"{ALONE}it waits for d{n}, t{n}" for n in range(2)},
    ),
    "none of a chain within the matrix": (
        "m: a b<a c<b d<c",
        "",
        {
            "a": f"{ALONE}b waits for a",
            **{job: f"{ALONE}it waits for {need}" for job, need in ("ba", "cb", "dc")},
        },
    ),
}


@pytest.mark.parametrize("which", BATCHES)
def test_the_jobs_of_a_matrix_that_wait_alike_are_a_batch_and_the_plan_says_why_others_are_not(world, which):
    matrices, groups, notes = BATCHES[which]
    for name, _, jobs in (text.partition(":") for text in matrices.split("; ")):
        needs = dict(job.partition("<")[::2] for job in jobs.split())
        world.matrix(name, *needs, **{job: need.replace("+", " ") for job, need in needs.items()})
    assert world.groups() == [group.split() for group in groups.split("|") if group]
    assert world.notes() == notes


def test_jobs_whose_needs_are_not_one_batch_are_submitted_singly(world):
    """A batch of them would be submitted before the jobs that it needs, or wait for itself."""
    world.matrix("train", "t0", "t1", traits={"t1": "2"}, t1="e0")
    world.matrix("eval", "e0", "e1", e0="t0", e1="t1")
    assert world.groups() == []
    assert world.notes()["e0"] == f"{ALONE}it waits for t0"
    assert world.notes()["t1"] == f"{ALONE}it differs from t0 in cpus"


def test_a_limit_of_jobs_that_each_wait_for_another_job_has_no_effect(world):
    world.matrix("train", "t0", "t1", max_parallel=1)
    world.matrix("eval", "e0", "e1", max_parallel=1, e0="t0", e1="t1")
    why = "`max_parallel` has no effect: jobs that each wait for another job may be several job arrays"
    assert world.notes() == {"e0": why, "e1": why}


def test_jobs_are_submitted_singly_to_a_cluster_without_arrays(monkeypatch):
    world = World(monkeypatch, most=0)
    world.matrix("eval", "a", "b", a="prepare", b="prepare")
    assert world.groups() == []
    assert "MaxArraySize is 0" in world.notes()["a"]


class Sharing:
    """A scheduler whose dry run judges no plain text."""

    judges_fields_alone = True

    def __init__(self, requests: list[str]) -> None:
        self.batches = SimpleNamespace(most=lambda cfg: 1000, traits=lambda request: request)
        self.requests = requests


@pytest.fixture
def sharing(world, monkeypatch):
    """A scheduler that shares dry runs, in the world of the test; its list gets the dry-run jobs."""
    made = Sharing([])

    def dry_run(bound):
        made.requests.append(bound.launch.key.job)
        return SimpleNamespace(request={"cpus": bound.launch.timeout_s or "1"})

    monkeypatch.setattr(world._engines, "get", lambda name: made)
    monkeypatch.setattr(world._engines, "dry_run", dry_run)
    return made


def test_a_job_is_in_the_batch_of_the_job_whose_dry_run_it_shares(world, sharing):
    world.matrix("m", "a", "b", "c", "d", traits={"c": "2", "d": "2"})
    for n in (1, 3):
        world.steps[n] = replace(world.steps[n], bound=None)
    assert world.groups() == [["a", "b"], ["c", "d"]]
    assert sharing.requests == []


def test_bound_jobs_that_are_alike_share_a_dry_run(world, sharing):
    world.matrix("m", "a", "b", "c", "d")
    for n, step in enumerate(world.steps):
        launch = replace(step.launch, file="m.launcher.yaml", timeout_s=60 if n > 1 else None)
        world.steps[n] = replace(step, launch=launch, bound=SimpleNamespace(info=None, launch=launch, cfg={}))
    assert world.groups() == [["a", "b"], ["c", "d"]]
    assert sharing.requests == ["a", "c"]


def away(*_: object, **__: object) -> None:
    raise SchedulerError("the engine is away")


@pytest.mark.parametrize("stage", ["announce", "reserve"])
def test_an_error_before_the_reservation_is_the_result_of_its_job(stage):
    """An engine may be unreachable when an unfinished submission has to be removed."""
    actions = {"announce": lambda as_planned: None, "reserve": lambda attempts: attempts, stage: away}
    scheduler = SimpleNamespace(batches=SimpleNamespace(reserve=actions["reserve"]))
    about: Any = {"announce": actions["announce"], "attempt": None, "scheduler": scheduler}
    jobs = [SimpleNamespace(key=key, app_id=key, **about) for key in "ab"]
    store: Any = SimpleNamespace(record_all=lambda attempts: None)
    at = Workplace(engines=Engines(), store=store, events=Events(None))
    results = submit(jobs, at, scheduler.batches)
    assert {key: str(error) for key, error in results.items()} == dict.fromkeys("ab", "the engine is away")
