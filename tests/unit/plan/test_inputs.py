"""`inputs`: files that a result stands on, and plans after their content has changed."""

from dataclasses import replace
from typing import Any

import pytest

from launcher.plan.model import Plan
from launcher.plan.reconcile import reconcile
from launcher.specs.attempt import Attempt
from launcher.specs.inputs import InputFiles
from launcher.specs.launch import Launch
from tests.unit.plan.world import attempt, job, lines, plan, world

UNDER = "train.py changed while it waited or ran"


def files(content: str, *globs: str) -> InputFiles:
    return InputFiles(globs or ("train.py",), {"train.py": content})


def train(content: str = "1", *globs: str, **fields: Any) -> Launch:
    """Return a job whose train.py holds `content` now."""
    found = files(content, *globs)
    return job("train", inputs=found.globs, inputs_digest=found.digest, **fields)


def known(made: Launch, *attempts: Attempt, lists: tuple[InputFiles, ...]) -> Plan:
    """Return the plan when these lists of files are recorded."""
    recorded = {each.digest: each for each in lists}
    return reconcile([made], replace(world(*attempts), inputs=recorded))


def test_an_edited_file_runs_finished_work_again_and_is_named():
    made = known(train("2"), attempt(train("1"), "succeeded", 3), lists=(files("1"), files("2")))
    assert lines(made) == ["r   default/train: train.py changed since attempt 3", "Plan: 1 to re-run"]
    [reason] = made.steps[0].reasons
    assert (reason.code, made.steps[0].number, made.steps[0].edition) == ("inputs_changed", 4, 4)


def test_a_plan_without_the_file_lists_names_no_file_and_decides_the_same():
    made = plan(train("2"), attempt(train("1"), "succeeded", 3))
    assert lines(made)[0] == "r   default/train: the files are not those of attempt 3"


@pytest.mark.parametrize(("before", "now", "words"), [
    (train("1"), train("1", "train.py", "*.csv"), "`inputs` now has `*.csv`"),
    (train("1", "train.py", "*.csv"), train("1"), "`inputs` no longer has `*.csv`"),
    (job("train"), train("1"), "attempt 1 was made without `inputs`"),
    (train("1"), job("train"), "attempt 1 was made with `inputs`, and the job file has none"),
])  # fmt: skip
def test_editing_the_list_of_inputs_is_a_change(before: Launch, now: Launch, words: str):
    """`inputs` is no policy: a result depends on the files that the list names."""
    lists = (files("1"), files("1", "train.py", "*.csv"))
    made = known(now, attempt(before, "succeeded"), lists=lists)
    assert (made.steps[0].kind, str(made.steps[0].reasons[0])) == ("rerun", words)


def test_a_running_attempt_goes_on_and_the_plan_has_a_note():
    made = known(train("2"), attempt(train("1"), "running", 2), lists=(files("1"), files("2")))
    [step] = made.steps
    assert (step.kind, step.stops) == ("keep", ())
    assert step.notes == ("out of date once it has ended: train.py changed since attempt 2",)
    assert not step.is_quiet
