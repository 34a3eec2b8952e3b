"""Live attempts whose job file is gone: reported, and destroyed on request."""

from typing import Any

import pytest

from launcher.dataclass import replace
from launcher.plan.reconcile import Scope
from launcher.specs.attempt import Attempt
from tests.unit.plan.world import ORIGIN, OWNER, attempt, job, lines, plan

HERE = Scope(origin=ORIGIN, target="default", directory="jobs")
KEPT = job("kept")
GONE = attempt(job("gone"), "running", 3)


def look(*attempts: Attempt, **choices: Any):
    choices = {"scopes": [HERE], **choices}
    return plan(KEPT, attempt(KEPT, "succeeded"), *attempts, **choices)


def test_an_orphan_is_reported_and_left_alone() -> None:
    made = look(GONE)
    assert lines(made) == [
        "?   default/gone: attempt 3 (running) of jobs/gone.launcher.yaml, which no longer declares it; "
        "--prune destroys it",
        "Plan: no changes, 1 unchanged, 1 orphaned",
    ]
    assert made.is_empty


def test_prune_destroys_an_orphan() -> None:
    made = look(GONE, prune=True)
    assert lines(made) == [
        "-   default/gone: jobs/gone.launcher.yaml declares it no more",
        f"      stops {GONE.app_id} (running)",
        "Plan: 1 to destroy, 1 unchanged",
    ]
    assert (made.steps[0].destructive, made.steps[0].consented) == (True, False)
    assert made.orphans == ()
    assert made.engines == {"local_cwd": "local:0123"}


def test_an_orphan_that_is_being_submitted_is_waited_for() -> None:
    made = look(attempt(job("gone"), "created", owner=OWNER), prune=True)
    assert made.steps[0].waits_for == OWNER


@pytest.mark.parametrize("outside", [
    attempt(job("gone"), "running", path="other/gone.launcher.yaml"),
    attempt(job("gone"), "running", path="jobs2/gone.launcher.yaml"),
    attempt(job("gone"), "running", path="jobs"),
    attempt(job("gone"), "running", origin="github.com/acme/audio"),
    attempt(job("kept", target="prod"), "running"),
], ids=["a folder", "a folder of like name", "no file", "a repository", "a target"])  # fmt: skip
def test_an_attempt_outside_of_the_planned_scope_is_no_orphan(outside: Attempt) -> None:
    assert look(outside).orphans == ()


def test_a_scope_with_a_project_covers_the_jobs_of_this_project() -> None:
    found = {
        project: [orphan.key.job for orphan in look(GONE, scopes=[replace(HERE, project=project)]).orphans]
        for project in (None, "default", "other")
    }
    assert found == {None: ["gone"], "default": ["gone"], "other": []}


@pytest.mark.parametrize("directory", ["", ".", "jobs", "jobs/"])
def test_a_planned_directory_covers_the_jobs_below_it(directory: str) -> None:
    scope = Scope(origin=ORIGIN, target="default", directory=directory)
    assert [orphan.key.job for orphan in look(GONE, scopes=[scope]).orphans] == ["gone"]


def test_a_job_that_moved_within_the_directory_is_no_orphan() -> None:
    moved = attempt(KEPT, "running", path="jobs/old/place.launcher.yaml")
    assert plan(KEPT, moved, scopes=[HERE]).orphans == ()


def test_both_attempts_of_a_job_that_was_being_replaced_are_destroyed() -> None:
    newer = attempt(job("gone", "-v"), "created", 4)
    made = look(GONE, newer, prune=True)
    assert [step.stops[0].attempt for step in made.steps if step.kind == "destroy"] == [3, 4]


def test_a_half_started_attempt_without_a_job_file_is_an_orphan() -> None:
    gone = attempt(job("gone"), "running", unstarted=1)
    assert [orphan.key for orphan in look(gone).orphans] == [gone.key]


def test_an_orphan_with_an_unreadable_record_is_held() -> None:
    orphan = attempt(job("gone"), "running", unreadable="cannot read events.jsonl")
    [step] = [each for each in look(orphan, prune=True).steps if each.key == orphan.key]
    assert (step.kind, step.reasons[0].code, step.stops) == ("hold", "record_unreadable", ())
    assert replace(orphan, unreadable="").to_json() == orphan.to_json()  # the fault is not stored
