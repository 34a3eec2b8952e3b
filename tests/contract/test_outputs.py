"""Contract: a job has one output folder for each of its editions."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.errors import LauncherError, SchedulerError
from launcher.schedulers import StagedScheduler
from launcher.specs import AppDef
from launcher.specs.attempt import Attempt, StoodOn
from launcher.specs.launch import JobKey
from launcher.specs.outputs import own_output
from launcher.unpacking import first_file, unpack
from tests.contract.conftest import Case
from tests.contract.test_staged import attempt_of, started

Staged = StagedScheduler[Any]

WRITE = 'echo $<app_id> >>"$LAUNCHER_OUTPUT_DIR/lines"; cat $<output_dir>/lines'
READ = "cat $<needs.prepare.output_dir>/lines"


def ran(case: Case, staged: Staged, app: AppDef, attempt: Attempt) -> list[str]:
    """Return the lines that an attempt printed."""
    started(staged, attempt, app)
    case.end(attempt.app_id)
    return [line.strip() for line in case.lines(attempt.app_id)]


def prepare(case: Case, app: AppDef, number: int, edition: int = 0) -> Attempt:
    key = JobKey(case.key().project, "default", "prepare")
    return replace(attempt_of(case, app, number, key), edition=edition or number)


def test_attempts_of_one_edition_share_an_output_folder_which_jobs_that_need_it_read(case, staged):
    app, reader = case.app(WRITE), case.app(READ)
    first, again, changed = (prepare(case, app, *which) for which in ((1,), (2, 1), (3,)))
    assert ran(case, staged, app, first) == [first.app_id]
    assert ran(case, staged, app, again) == [first.app_id, again.app_id]
    assert ran(case, staged, app, changed) == [changed.app_id]
    read = ((first, [first.app_id, again.app_id]), (changed, [changed.app_id]))
    for number, (stood_on, lines) in enumerate(read, start=1):
        need = StoodOn("prepare", stood_on.number, stood_on.edition, stood_on.app_id, case.name)
        attempt = replace(attempt_of(case, reader, number), needs=(need,))
        assert ran(case, staged, reader, attempt) == lines


def test_a_replica_finds_the_output_folders_of_all_needs_of_its_job(case: Case, staged: Staged) -> None:
    writer, other = case.app(WRITE), case.app("true")
    first = prepare(case, writer, 1)
    fetch = attempt_of(case, other, 1, case.key("fetch"))
    ran(case, staged, writer, first)
    ran(case, staged, other, fetch)
    of_prepare = 's/.*"prepare", "output_dir": "\\([^"]*\\)".*/\\1/'
    reader = case.app(f"echo $LAUNCHER_NEEDS; cat $(echo $LAUNCHER_NEEDS | sed '{of_prepare}')/lines")
    needs = tuple(StoodOn(n, 1, 1, of.app_id, case.name) for n, of in (("fetch", fetch), ("prepare", first)))
    listed, line = ran(case, staged, reader, replace(attempt_of(case, reader), needs=needs))
    none, found = json.loads(listed)
    is_local = case.name in ("local_cwd", "local_dir")  # whose jobs always have an output folder
    assert (none["job"], bool(none["output_dir"])) == ("fetch", is_local)
    assert found.keys() == {"job", "output_dir"}
    assert (found["job"], line) == ("prepare", first.app_id)


def test_an_app_without_a_job_has_no_output_folder(case: Case) -> None:
    for app in (case.app("echo $<output_dir>"), replace(case.app("true"), output=True)):
        with pytest.raises(SchedulerError, match="launcher apply"):
            case.start(app)
    ran = case.run(case.app('echo "in ${LAUNCHER_OUTPUT_DIR:-nothing}"'))
    assert [line.strip() for line in case.lines(ran.app_id)] == ["in nothing"]


def recorded(staged: Staged, app: AppDef, attempt: Attempt) -> Attempt:
    return replace(attempt, output=staged.output_folders.address(attempt, app))


def lost(staged: Staged, *attempts: Attempt) -> set[str]:
    """Return the lost outputs that a plan finds after it has observed the jobs."""
    staged.observe([each.key for each in attempts])
    return staged.output_folders.lost(attempts)


def test_an_output_folder_is_named_and_outlives_its_app_until_it_is_removed(case, staged):
    app, reader = case.app(WRITE), case.app(READ)
    attempt = recorded(staged, app, prepare(case, app, 1))
    assert attempt.output
    ran(case, staged, app, attempt)
    answers = [ask(attempt.app_id) for ask in (staged.attempt, staged.record, staged.describe)]
    assert [each and each.output for each in answers] == [attempt.output] * 3
    assert lost(staged, attempt) == set()
    staged.remove(attempt.app_id)
    assert lost(staged, attempt) == set()
    need = StoodOn("prepare", 1, 1, attempt.app_id, case.name)
    read = replace(attempt_of(case, reader), needs=(need,))
    assert ran(case, staged, reader, read) == [attempt.app_id]
    staged.remove(read.app_id)
    staged.output_folders.remove(own_output(attempt))
    assert lost(staged, attempt) == {attempt.app_id}
    assert lost(staged, replace(attempt, output="")) == set()  # of an older version


def test_a_job_gets_an_output_folder_with_output_true_alone(case: Case, staged: Staged) -> None:
    silent, asking = case.app("true"), replace(case.app("true"), output=True)
    attempt = prepare(case, asking, 1)
    is_local = case.name in ("local_cwd", "local_dir")
    assert bool(staged.output_folders.address(attempt, silent)) == is_local
    attempt = recorded(staged, asking, attempt)
    ran(case, staged, asking, attempt)
    assert own_output(attempt) in staged.output_folders.names()


def copied(staged: Staged, attempt: Attempt, folder: Path) -> Path:
    pieces, top = staged.output_folders.archive(attempt)
    unpack(pieces, str(folder), top=top)
    return folder


@pytest.mark.everywhere
def test_the_files_of_an_output_folder_can_be_copied(case: Case, staged: Staged, tmp_path: Path) -> None:
    big = "head -c 3000000 /dev/zero >deep/er/big"
    write = f'cd "$LAUNCHER_OUTPUT_DIR"; mkdir -p deep/er; echo x >a; ln -s ../a deep/link; {big}; chmod +x a'
    attempt = prepare(case, app := case.app(write), 1)
    ran(case, staged, app, attempt)
    got = copied(staged, attempt, tmp_path / "new" / "got")
    assert (got / "a").read_text() == (got / "deep" / "link").read_text() == "x\n"
    assert os.access(got / "a", os.X_OK)
    assert (got / "deep" / "er" / "big").stat().st_size == 3_000_000
    staged.remove(attempt.app_id)  # and nothing of the copy keeps the folder in use
    assert os.listdir(copied(staged, attempt, tmp_path / "again")) != []
    staged.output_folders.remove(own_output(attempt))


def only(staged: Staged, attempt: Attempt, name: str) -> bytes | None:
    """Return one file of the output folder; None when the archive lacks it or cannot be made."""
    pieces, top = staged.output_folders.archive(attempt, name)
    assert top == ""
    try:
        found = first_file(pieces, name, most=100)
    except SchedulerError:
        return None
    return None if found is None else found.data


def test_one_file_of_an_output_folder_can_be_read(case: Case, staged: Staged) -> None:
    big = "head -c 101 /dev/zero >big"
    write = f'cd "$LAUNCHER_OUTPUT_DIR"; echo x >a; {big}; mkdir d; echo y >d/a; ln -s a link; mkfifo pipe'
    attempt = prepare(case, app := case.app(write), 1)
    ran(case, staged, app, attempt)
    assert only(staged, attempt, "a") == b"x\n"
    assert [only(staged, attempt, name) for name in ("none", "big", "d", "link", "pipe")] == [None] * 5
    staged.remove(attempt.app_id)
    staged.output_folders.remove(own_output(attempt))


@pytest.mark.parametrize("hostile", ["ln -s ../.. x", "mkfifo x"])
def test_an_output_folder_with_links_out_or_special_files_is_not_copied(case, staged, tmp_path, hostile):
    attempt = prepare(case, app := case.app(f'cd "$LAUNCHER_OUTPUT_DIR"; echo x >a; {hostile}'), 1)
    ran(case, staged, app, attempt)
    with pytest.raises(LauncherError, match="'x'"):
        copied(staged, attempt, tmp_path / "got")
    assert "got" not in "".join(os.listdir(tmp_path))
    staged.remove(attempt.app_id)
    staged.output_folders.remove(own_output(attempt))
