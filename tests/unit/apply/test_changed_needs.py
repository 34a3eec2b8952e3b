"""Plans of jobs with needs, applied for real: sets of needs that change, and selections."""

from pathlib import Path

import pytest

import launcher
from launcher.apply import apply_launches, make_plan
from launcher.plan.model import Plan
from launcher.plan.reconcile import Choices
from launcher.schedulers.registry import open_store
from launcher.specs.launch import JobKey, Launch


def jobs(folder: Path, **texts: str) -> list[Launch]:
    for job, text in texts.items():
        (folder / f"{job}.launcher.yaml").write_text(
            f"version: 1\nname: {job}\nroles: {{main: {{entrypoint: echo, args: [{text}]}}}}\n"
            + ("needs: [prepare]\n" if text.startswith("after") else "")
        )
    return [launcher.load_job(str(folder / f"{job}.launcher.yaml")) for job in texts]


def kinds(plan: Plan) -> dict[str, str]:
    return {step.key.job: step.kind for step in plan.steps}


def needing(folder: Path, line: str) -> Launch:
    """Return the job train, with this line about its needs."""
    [train] = jobs(folder, train="two")
    file = folder / train.file
    file.write_text(f"{file.read_text()}{line}\n")
    return launcher.load_job(str(file))


def recorded(job: str) -> list[list[str]]:
    """Return the needs of each attempt, with `~` before the needs that only keep the order."""
    with open_store() as store:
        made = reversed(store.attempts(JobKey("default", "default", job)))
    return [
        [f"{'~' * (each.job in attempt.order_only)}{each.job}@{each.number}" for each in attempt.needs]
        for attempt in made
    ]


@pytest.mark.slow
def test_a_job_runs_again_for_each_change_of_its_set_of_needs_and_no_record_changes(tmp_path: Path) -> None:
    prepare, other, train = jobs(tmp_path, prepare="one", other="three", train="two")
    apply_launches([prepare, other, train], wait=True)
    expected: list[list[str]] = [[]]
    for line, stands in [
        ("needs: [prepare]", ["prepare@1"]),
        ("needs: [other, prepare]", ["other@1", "prepare@1"]),
        ("needs: {other: {rerun: never}}", ["~other@1"]),
        ("needs: {prepare: {}, other: {rerun: never}}", ["~other@1", "prepare@1"]),
        ("", []),
    ]:
        train = needing(tmp_path, line)
        assert kinds(make_plan([prepare, other, train])) == {
            "other": "keep",
            "prepare": "keep",
            "train": "rerun",
        }
        apply_launches([prepare, other, train], wait=True)
        expected.append(stands)
        assert make_plan([prepare, other, train]).is_empty
        apply_launches([prepare, other, train], wait=True)
        assert recorded("train") == expected


def test_a_policy_of_a_need_alone_runs_nothing_again(tmp_path: Path) -> None:
    [prepare] = jobs(tmp_path, prepare="one")
    apply_launches([prepare, needing(tmp_path, "needs: [prepare]")], wait=True)
    for line in ("needs: {prepare: {rerun: never}}", "needs: [prepare]"):
        assert make_plan([prepare, needing(tmp_path, line)]).is_empty


def test_a_matrix_in_another_file_is_known_to_the_job_that_is_loaded_alone(tmp_path: Path) -> None:
    (tmp_path / "launcher.toml").write_text("")
    grid = tmp_path / "grid.launcher.yaml"

    def matrix(values: str) -> list[Launch]:
        grid.write_text(
            f"version: 1\nname: grid\nmatrix: {{n: {values}}}\n"
            "roles: {main: {entrypoint: echo, args: [$<matrix.n>]}}\n"
        )
        return launcher.load_jobs(str(grid))

    apply_launches([*matrix("[1, 2]"), needing(tmp_path, "needs: [grid]")], wait=True)
    alone = needing(tmp_path, "needs: [grid]")
    assert make_plan([alone]).is_empty
    matrix("[2]")
    [step] = make_plan([needing(tmp_path, "needs: [grid]")]).steps
    assert step.why() == "needs_changed (no longer needs grid-1)"
    grid.write_text("version: 1\nname: grid\nmatrix: {n: [")
    [step] = make_plan([needing(tmp_path, "needs: [grid]")]).steps
    assert (step.kind, len(step.notes)) == ("keep", 1)
    assert "grid.launcher.yaml" in step.notes[0]


def test_an_applied_chain_has_an_empty_plan_and_one_of_its_jobs_can_run_again_alone(tmp_path: Path) -> None:
    chain = jobs(tmp_path, prepare="one", train="after")
    assert [step.after for step in make_plan(chain).steps] == [(), ("prepare",)]
    assert make_plan(chain, choices=Choices(select=("train",))).problems
    done = apply_launches(chain, wait=True)
    assert done.exit_code == 0
    assert make_plan(chain).is_empty
    again = apply_launches(chain, choices=Choices(select=("train",), rerun=("train",)), wait=True)
    assert [(each.key.job, each.attempt, each.state) for each in again.outcomes] == [
        ("train", 2, "succeeded")
    ]
    with_needs = make_plan(chain, choices=Choices(select=("train",), rerun=("train",)))
    assert [(need.job, need.number) for need in with_needs.steps[0].needs] == [("prepare", 1)]
    assert with_needs.steps[0].edition == 1
