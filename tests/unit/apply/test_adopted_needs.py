"""Plans of jobs with needs, applied for real: a need that is added later, and selections."""

from __future__ import annotations

from pathlib import Path

import launcher
from launcher.apply import apply_launches, make_plan
from launcher.apply.look import Choices
from launcher.plan.model import Plan
from launcher.specs.launch import Launch


def jobs(folder: Path, **texts: str) -> list[Launch]:
    for job, text in texts.items():
        (folder / f"{job}.launcher.yaml").write_text(
            f"version: 1\nname: {job}\nroles: {{main: {{entrypoint: echo, args: [{text}]}}}}\n"
            + ("needs: [prepare]\n" if text.startswith("after") else "")
        )
    return [launcher.load_job(str(folder / f"{job}.launcher.yaml")) for job in texts]


def kinds(plan: Plan) -> dict[str, str]:
    return {step.key.job: step.kind for step in plan.steps}


def test_a_need_that_is_added_is_adopted_and_fires_from_then_on(tmp_path: Path) -> None:
    apply_launches(jobs(tmp_path, prepare="one", train="two"), wait=True)
    [prepare, train] = jobs(tmp_path, prepare="one", train="two")
    (tmp_path / "train.launcher.yaml").write_text(
        (tmp_path / "train.launcher.yaml").read_text() + "needs: [prepare]\n"
    )
    train = launcher.load_job(str(tmp_path / "train.launcher.yaml"))
    assert make_plan([prepare, train]).is_empty
    assert kinds(make_plan([*jobs(tmp_path, prepare="new"), train])) == {"prepare": "create", "train": "keep"}
    apply_launches([prepare, train], wait=True)
    changed = make_plan([*jobs(tmp_path, prepare="new"), train])
    assert kinds(changed) == {"prepare": "create", "train": "rerun"}


def test_a_chain_is_planned_empty_after_it_was_applied_and_a_part_of_it_can_be(tmp_path: Path) -> None:
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
