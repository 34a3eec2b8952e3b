"""Jobs of a matrix that are alike share a dry run, and every job has the notes and refusals of its own."""

import random
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from launcher.apply import make_plan
from launcher.apply.dry_run import are_alike
from launcher.apply.engines import Engines
from launcher.errors import SchedulerError
from launcher.schedulers.local.scheduler import LocalScheduler
from launcher.specs import Launch, Resource, Role, Secret
from launcher.specs.app import AppDef
from launcher.specs.launch import JobKey

TEXTS = ["1", "x y", "", "é", "$<app_id>", "$<rank0_env>", "$$<app_id>", "two\nlines", "y" * 300]
PLAIN = ["1", "", "é", "--nodes=9", "#SBATCH --hold", "%j \\ a'b\"c", "x" * 199]
WRONG = ["$<nope>", "a\0b"]


def launch(n: int, folder: Path, role: Role, **more: Any) -> Launch:
    """Job `sweep-N` of the matrix `sweep`."""
    return Launch(
        **{
            "key": JobKey("p", "default", f"sweep-{n}"),
            "app": AppDef(name=f"sweep-{n}", roles=[role]),
            "scheduler": "local_cwd",
            "matrix": "sweep",
            "root": str(folder),
            "file": "sweep.launcher.yaml",
            "origin": str(folder),
            **more,
        }
    )


def role(*args: str, **fields: Any) -> Role:
    return Role(name="main", image="", entrypoint="true", args=[*args], **fields)


@pytest.fixture
def dry_runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the apps that local_cwd has dry-run."""
    found: list[str] = []
    before = LocalScheduler._submit_dryrun

    def counted(self: LocalScheduler, app: AppDef, cfg: Any) -> Any:
        found.append(app.name)
        return before(self, app, cfg)

    monkeypatch.setattr(LocalScheduler, "_submit_dryrun", counted)
    return found


def test_one_dry_run_answers_for_all_jobs_that_are_alike(launcher_home, tmp_path, dry_runs):
    launches = [launch(n, tmp_path, role(str(n), resource=Resource(1, 0, 64))) for n in range(50)]
    plan = make_plan(launches)
    assert dry_runs == ["sweep-0"]
    assert {step.notes for step in plan.steps} == {
        ("role `main`: cpu and memory are not enforced by local_cwd",)
    }
    assert [step.key.job for step in plan.steps if step.bound] == ["sweep-0"]


def test_a_plan_with_requests_has_a_request_for_each_job(launcher_home, tmp_path, dry_runs):
    launches = [launch(n, tmp_path, role(str(n))) for n in range(5)]
    plan = make_plan(launches, requests=True)
    assert len(dry_runs) == 5
    requests = [step.bound.info.request for step in plan.steps if step.bound and step.bound.info]
    assert [each.role_params["main"][0].args for each in requests] == [["true", str(n)] for n in range(5)]


def test_each_job_outside_a_matrix_has_its_own_dry_run(launcher_home, tmp_path, dry_runs):
    make_plan([launch(n, tmp_path, role(str(n)), matrix="") for n in range(3)])
    assert dry_runs == ["sweep-0", "sweep-1", "sweep-2"]


@pytest.mark.parametrize(
    "other",
    [{"args": ["$<app_id>"]}, {"args": ["two\nlines"]}, {"args": ["1", "2"]}, {"env": {"B": "1"}},
        {"env": {"A": Secret("env:A")}}, {"image": "other"}, {"num_replicas": 2},
        {"resource": Resource(1, 0, 64)}, {"max_retries": 1}],
    ids=lambda each: next(iter(each)),
)  # fmt: skip
def test_a_job_with_another_field_is_judged_on_its_own(tmp_path, other):
    one = launch(0, tmp_path, role("1", env={"A": "1"}))
    assert are_alike(launch(1, tmp_path, role("2", env={"A": "2"})), one)
    assert not are_alike(launch(1, tmp_path, replace(one.app.roles[0], **other)), one)


def test_a_job_that_asks_for_an_output_folder_is_judged_on_its_own(tmp_path):
    one = launch(0, tmp_path, role("1"))
    asks = AppDef(name="sweep-1", roles=[role("1")], output=True)
    assert not are_alike(launch(1, tmp_path, role("1"), app=asks), one)


def test_a_role_of_a_class_of_the_user_is_judged_on_its_own(tmp_path):
    class Edited(Role):
        pass

    mine = Edited(name="main", image="", entrypoint="true", args=["1"])
    assert not are_alike(launch(1, tmp_path, mine), launch(0, tmp_path, mine))


@pytest.mark.parametrize("seed", range(20))
def test_a_plan_notes_and_refuses_the_same_as_with_a_dry_run_of_each_job(launcher_home, tmp_path, seed):
    chance = random.Random(seed)
    texts = TEXTS + WRONG * (seed % 2)
    launches = [
        launch(
            n,
            tmp_path,
            role(
                chance.choice(texts),
                env={"A": chance.choice(texts), "RANK": chance.choice(["0", "1"])},
                resource=Resource(chance.choice([0, 1]), 0, 0),
            ),
            cfg=chance.choice([{}, {}, {"cwd": "/no/such/folder"}]) if seed % 4 == 3 else {},
        )
        for n in range(40)
    ]

    def judged(*, requests: bool) -> Any:
        try:
            return [(step.key, step.notes) for step in make_plan(launches, requests=requests).steps]
        except SchedulerError as error:
            return str(error), error.hint

    assert judged(requests=False) == judged(requests=True)


@pytest.mark.parametrize("seed", range(3))
def test_slurm_has_the_same_notes_and_traits_for_jobs_that_are_alike(launcher_home, tmp_path, seed):
    chance = random.Random(seed)

    def made(n: int) -> Launch:
        args = [chance.choice(PLAIN), str(n)]
        env = {"A": chance.choice(PLAIN), "RANK": chance.choice(PLAIN), "SBATCH_HOLD": chance.choice(PLAIN)}
        asks = Resource(chance.choice([1, 2]), 0, 64)
        return launch(n, tmp_path, role(*args, env=env, resource=asks), scheduler="slurm")

    launches = [made(n) for n in range(60)]
    with Engines() as engines:
        assert engines.judges_fields_alone(launches[0])
        traits = engines.get("slurm").batches.traits
        alike = [each for each in combinations(launches, 2) if are_alike(*each)][:100]
        assert len(alike) > 50
        for both in alike:
            one, two = (engines.dry_run(engines.bind(each)).request for each in both)
            assert (one.notes, traits(one)) == (two.notes, traits(two))
