"""Contract: the output folders of jobs, one for each edition."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from launcher.errors import SchedulerError
from launcher.schedulers import StagedScheduler
from launcher.specs import AppDef
from launcher.specs.attempt import Attempt
from launcher.specs.launch import JobKey
from launcher.specs.needs import StoodOn
from tests.contract.conftest import Case
from tests.contract.test_staged import attempt_of

Staged = StagedScheduler[Any]

WRITE = 'echo $<app_id> >>"$LAUNCHER_OUTPUT_DIR/lines"; cat $<output_dir>/lines'
READ = "cat $<needs.prepare.output_dir>/lines"


def ran(case: Case, staged: Staged, app: AppDef, attempt: Attempt) -> list[str]:
    """The lines that an attempt printed."""
    reservation = staged.reserve(attempt)
    staged.create(reservation, app, {})
    staged.start(reservation)
    case.end(attempt.app_id)
    return [line.strip() for line in case.lines(attempt.app_id)]


def prepare(case: Case, app: AppDef, number: int, edition: int = 0) -> Attempt:
    key = JobKey(case.key().project, "default", "prepare")
    return replace(attempt_of(case, app, number, key), edition=edition or number)


def test_attempts_of_one_edition_share_a_folder_and_another_edition_has_its_own(
    case: Case, staged: Staged
) -> None:
    app = case.app(WRITE)
    first, again, changed = (prepare(case, app, *which) for which in ((1,), (2, 1), (3,)))
    assert ran(case, staged, app, first) == [first.app_id]
    assert ran(case, staged, app, again) == [first.app_id, again.app_id]
    assert ran(case, staged, app, changed) == [changed.app_id]


def test_a_job_reads_the_folder_of_the_edition_that_it_stands_on(case: Case, staged: Staged) -> None:
    app, reader = case.app(WRITE), case.app(READ)
    first, changed = prepare(case, app, 1), prepare(case, app, 2)
    ran(case, staged, app, first)
    ran(case, staged, app, changed)
    for number, stood_on in enumerate((first, changed), start=1):
        need = StoodOn("prepare", stood_on.number, stood_on.edition, stood_on.app_id, case.name)
        attempt = replace(attempt_of(case, reader, number), needs=(need,))
        assert ran(case, staged, reader, attempt) == [stood_on.app_id]


def test_a_program_finds_the_folders_of_all_its_needs(case: Case, staged: Staged) -> None:
    writer, other = case.app(WRITE), case.app("true")
    first = prepare(case, writer, 1)
    fetch = attempt_of(case, other, 1, case.key("fetch"))
    ran(case, staged, writer, first)
    ran(case, staged, other, fetch)
    of_prepare = 's/.*"prepare", "output_dir": "\\([^"]*\\)".*/\\1/'
    reader = case.app(f"echo $LAUNCHER_NEEDS; cat $(echo $LAUNCHER_NEEDS | sed '{of_prepare}')/lines")
    needs = (
        StoodOn("fetch", 1, 1, fetch.app_id, case.name),
        StoodOn("prepare", 1, 1, first.app_id, case.name),
    )
    listed, line = ran(case, staged, reader, replace(attempt_of(case, reader), needs=needs))
    none, found = json.loads(listed)
    is_local = case.name in ("local_cwd", "local_dir")  # whose jobs always have an output folder
    assert (none["job"], bool(none["output_dir"])) == ("fetch", is_local)
    assert found.keys() == {"job", "output_dir"}
    assert (found["job"], line) == ("prepare", first.app_id)


def test_an_app_without_a_job_has_no_output_folder(case: Case) -> None:
    with pytest.raises(SchedulerError, match="launcher apply"):
        case.start(case.app("echo $<output_dir>"))


def test_cleaning_up_after_an_app_leaves_its_output(case: Case, staged: Staged) -> None:
    app, reader = case.app(WRITE), case.app(READ)
    first = prepare(case, app, 1)
    ran(case, staged, app, first)
    staged.remove(first.app_id)
    need = StoodOn("prepare", 1, 1, first.app_id, case.name)
    assert ran(case, staged, reader, replace(attempt_of(case, reader), needs=(need,))) == [first.app_id]
