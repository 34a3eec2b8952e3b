"""Files of the checkout that differ from what an attempt ran: a remark, or with `on_edit: rerun` a reason."""

from dataclasses import replace
from typing import Any

import pytest

from launcher.plan.codec import dumps, loads
from launcher.plan.explain import Basis, explain
from launcher.plan.grounds import Grounds
from launcher.plan.model import Plan, matches, plan_exit_code
from launcher.plan.recheck import located, recheck
from launcher.specs.attempt import StoodOn
from launcher.specs.inputs import combine
from launcher.specs.launch import Launch, Need, Trigger, WorkspaceRef
from tests.unit.plan.world import ORIGIN, attempt, job, lines, plan, world

NOTE, RERUN = job("train"), job("train", on_edit="rerun")
COMMIT = "a1b2c3d" + "0" * 33


def edited(launch: Launch, state: str, *files: str, **choices: Any) -> Plan:
    """Return the plan of a job whose files differ from those of its only attempt."""
    return plan(launch, attempt(launch, state, commit=COMMIT), edited={launch.key: files}, **choices)


def test_a_kept_job_says_which_files_differ():
    made = edited(NOTE, "succeeded", "model.py", "train.py")
    assert lines(made) == [
        "=   default/train: attempt 1 succeeded; model.py, train.py differ from what ran (a1b2c3d)",
        "Plan: no changes, 1 unchanged, 1 of them edited",
    ]
    assert made.steps[0].edited == ("model.py", "train.py")
    assert matches(made, ["edited"]) == {"edited": [NOTE.key]}
    assert plan_exit_code(made, fail_on=["edited"]) == 3
    assert plan_exit_code(made, detailed=True) == 0


def test_at_most_ten_files_are_named():
    made = edited(NOTE, "succeeded", *(f"m{number:02}.py" for number in range(13)))
    assert "m09.py and 3 more differ from" in lines(made)[0]


@pytest.mark.parametrize("commit", ["", f"{COMMIT}-dirty"])
def test_the_commit_of_an_attempt_is_named_where_it_is_known(commit: str):
    made = plan(NOTE, attempt(NOTE, "succeeded", commit=commit), edited={NOTE.key: ("a.py",)})
    assert lines(made)[0].endswith("what ran (a1b2c3d-dirty)" if commit else "what ran")


def test_a_disabled_job_does_not_report_edited_files():
    assert not matches(edited(replace(NOTE, enabled=False), "succeeded", "train.py"), ["edited"])


def saved(made: Plan) -> Plan:
    stamped = made.stamped(plan_id="p", created_at=100)
    return located(loads(dumps(stamped)), root="/src", origin=ORIGIN)


def test_a_saved_plan_keeps_the_edits_that_it_was_made_with():
    made = edited(RERUN, "succeeded", "train.py")
    read = saved(made)
    assert read.steps[0].edited == ("train.py",)
    before = attempt(RERUN, "succeeded", commit=COMMIT)
    left = recheck(read, world(before), now=200)
    assert (left.stale, left.plan.steps[0].kind) == ((), "rerun")
    ran = attempt(RERUN, "succeeded", 2, plan_id="p")
    assert recheck(read, world(before, ran), now=200).stale[0].reason.code == "already_applied"
    kept = recheck(saved(edited(NOTE, "succeeded", "train.py")), world(before), now=200)
    assert (kept.stale, kept.plan.steps[0].kind) == ((), "keep")


def test_explain_shows_every_part_that_a_success_depends_on():
    csv, every = Trigger("files", ("*.csv",)), Trigger("every_apply")
    workspace = WorkspaceRef("src", "ws1:sha256:" + "1" * 64)
    needs = (Need("a"), Need("b", rerun=False), Need("new"))
    launch = job("train", rerun_on=(csv, every), trigger_digest=combine({"*.csv": "1"}), needs=needs)
    launch = replace(launch, workspace=workspace)
    stood_on = tuple(StoodOn(name, 1, 1, f"{name}-1", "local_cwd") for name in ("a", "b", "gone"))
    success = attempt(launch, "succeeded", needs=stood_on, seen={"train.py": "1", "model.py": "2"})
    changed = {"trigger_digest": combine({"*.csv": "2"}), "workspace": workspace._replace(digest="ws1:x")}
    now = replace(launch, **changed)
    others = [attempt(job(n), "succeeded", *at) for n, at in (("a", [2]), ("b", [2]), ("new", []))]
    found = world(success, *others)
    made = plan([now, *map(job, ("a", "b", "new"))], success, *others)
    [step] = [each for each in made.steps if each.key == now.key]
    output = explain(step, found, Grounds(found).of(now), ["model.py", "more.py"])
    assert [(part.what, part.name, part.is_current, part.now) for part in output.parts] == [
        ("document", "", False, "1 change"),
        ("workspace", "src", False, "changed"),
        ("need", "a", False, "a has run since: attempt 2"),
        ("need", "b", None, "rerun: never"),
        ("need", "gone", False, "no longer needed"),
        ("need", "new", False, "now also needed"),
        ("files", "*.csv", False, "`*.csv` changed since attempt 1"),
        ("files", "every_apply", False, "each apply runs it again"),
        ("seen", "model.py", False, "differs from what ran"),
        ("seen", "train.py", True, ""),
        ("seen", "more.py", False, "imported now"),
    ]


def test_explain_shows_no_parts_for_a_job_that_never_succeeded():
    [step] = plan(NOTE).steps
    assert explain(step, world(), (), ()).parts == ()


def test_a_current_success_is_current_in_each_part():
    success = attempt(NOTE, "succeeded", seen={"train.py": "1", "": "more"})
    [step] = plan(NOTE, success).steps
    assert explain(step, world(success), (), ()).parts == (
        Basis(what="document", recorded=success.digest),
        Basis(what="seen", name="train.py", recorded="1"),
    )


def test_inputs_and_needs_that_are_not_compared_are_explained():
    launch = replace(job("train", needs=(Need("a"),)), inputs=("train.py",), inputs_digest="in1:sha256:2")
    stood_on = (StoodOn("a", 1, 1, "a-1", "local_cwd"), StoodOn("b", 1, 1, "b-1", "local_cwd"))
    success = attempt(launch, "succeeded", needs=stood_on)
    success = replace(success, inputs="in1:sha256:1")
    [step] = plan(launch, success, attempt(job("a"), "succeeded")).steps
    unread = replace(launch, unresolved={"a": "a.launcher.yaml cannot be read"})
    found = world(success, attempt(job("a"), "succeeded"))
    output = explain(step, found, Grounds(found).of(unread), ())
    assert [(part.what, part.name, part.is_current, part.now) for part in output.parts] == [
        ("document", "", True, ""),
        ("need", "a", True, ""),
        ("need", "b", None, "a.launcher.yaml cannot be read"),
        ("inputs", "", False, "the files are not those of attempt 1"),
    ]
