"""Plans of jobs that need a success whose output folder is gone."""

from dataclasses import replace

import pytest

from launcher.plan.reconcile import reconcile
from launcher.plan.snapshot import OUTPUT_GONE
from launcher.plan.step import Step
from launcher.specs.launch import Launch, Need
from tests.unit.plan.world import attempt, job, world

PREPARE = job("prepare")
CELL = replace(job("prepare"), matrix="grid")
NEEDS = (Need("prepare"),)
READER = job("train", "$<needs.prepare.output_dir>", needs=NEEDS)
LISTER = job("train", "${LAUNCHER_NEEDS}", needs=NEEDS)
OTHER = job("train", needs=NEEDS)
REMEDY = "the output folder of `prepare` is gone; to make it again: --rerun prepare"


def planned(*desired: Launch, engine: str = "") -> list[Step]:
    made = attempt(PREPARE, "succeeded")
    return list(reconcile(desired, world(made).without_outputs({made.app_id: engine})).steps)


def test_a_success_whose_output_is_gone_is_kept_and_says_so() -> None:
    [step] = planned(PREPARE)
    drift = [each.detail for each in step.reasons if each.code == "drift"]
    assert (step.kind, drift) == ("keep", [OUTPUT_GONE])


@pytest.mark.parametrize(
    ("need", "dependent"),
    [(PREPARE, READER), (PREPARE, LISTER), (CELL, OTHER)],
    ids=["path", "list", "matrix"],
)
def test_a_job_that_reads_an_output_that_is_gone_is_held(need: Launch, dependent: Launch) -> None:
    [_, step] = planned(need, dependent)
    assert (step.kind, step.needs, step.notes) == ("hold", (), (REMEDY,))
    assert str(step.reasons[0]) == f"needs_failed (prepare: {OUTPUT_GONE})"


def test_a_job_that_does_not_read_a_lost_output_starts_with_a_note() -> None:
    [_, step] = planned(PREPARE, OTHER)
    assert (step.kind, [each.job for each in step.needs], step.notes) == ("create", ["prepare"], (REMEDY,))


def test_the_output_of_a_need_that_no_file_declares_is_looked_at_too() -> None:
    [step] = planned(READER)
    assert (step.kind, step.notes) == ("hold", (REMEDY,))


def test_a_job_that_reads_an_output_at_another_engine_is_held_and_names_the_engine() -> None:
    [kept, step] = planned(PREPARE, READER, engine="tcp://gpu1:2376")
    assert [each.detail for each in kept.reasons if each.code == "drift"] == [
        "its output folder is at the engine tcp://gpu1:2376"
    ]
    assert (step.kind, step.notes) == (
        "hold",
        (
            "the output folder of `prepare` is at the engine tcp://gpu1:2376; ask that engine, or make it "
            "here: --rerun prepare",
        ),
    )
