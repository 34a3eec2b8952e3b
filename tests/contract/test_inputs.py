"""Contract: the holder of an app compares its input files when a waiting app starts and after a success.

A cluster does not see the checkout: its apps are compared at the submission.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.schedulers import StagedScheduler
from launcher.specs import AppDef
from launcher.specs.attempt import Attempt
from launcher.specs.launch import InputRef
from launcher.state.store import Store
from launcher.workspace import inputs
from tests import processes
from tests.contract.conftest import Case, Gate
from tests.contract.test_holding import needing, prepare
from tests.contract.test_staged import attempt_of, started

Staged = StagedScheduler[Any]
GLOBS = ("train.py", "conf/*")
UNDER = "train.py changed while it waited or ran"


@pytest.fixture
def staged(staged: Staged) -> Staged:
    if staged.backend.startswith("slurm"):
        pytest.skip(f"{staged.backend} has no checkout")
    return staged


@pytest.fixture
def code(tmp_path: Path) -> Path:
    file = tmp_path / "checkout" / "train.py"
    file.parent.mkdir()
    file.write_text("one")
    return file


def submit(case: Case, staged: Staged, app: AppDef, code: Path, *needs: Attempt) -> Attempt:
    """Submit an attempt whose inputs are the files beside `code`, with their present contents."""
    folder = str(code.parent)
    digest = inputs.InputReader().read(folder, GLOBS, folder)[0]
    inputs.keep(digest)
    attempt = replace(attempt_of(case, app), inputs=digest, created_at=time.time())
    inputs_ = InputRef(digest, folder, folder, GLOBS)
    return started(staged, attempt, app, waits_for=needing(*needs), inputs=inputs_)


def kill_holder(attempt: Attempt, home: Path) -> None:
    holder = processes.supervisors(str(home))[attempt.app_id]
    processes.kill([holder])
    assert processes.gone([holder], timeout_s=30)


def judged(staged: Staged, attempt: Attempt) -> tuple[str, str]:
    """Return state and changed inputs of an ended attempt, once a client has recorded its end."""
    staged.reap()
    staged.wait(attempt.app_id, 60)
    found = staged.attempt(attempt.app_id)
    return found.state, found.inputs_changed


def ended(case: Case, staged: Staged, attempt: Attempt) -> tuple[str, str]:
    """Return state and changed inputs, equal from the engine and from the ledger of any client."""
    case.end(attempt.app_id)
    found = staged.attempt(attempt.app_id)
    assert found is not None
    with Store.open() as store:
        store.record(replace(attempt, state="running"))
        record = staged.wait_record(attempt.app_id)
        assert record is not None
        store.end(record)
        recorded = store.by_app_id(attempt.app_id)
    assert (recorded.state, recorded.inputs_changed) == (found.state, found.inputs_changed)
    assert found.inputs == attempt.inputs
    return found.state, found.inputs_changed


def test_an_attempt_with_unchanged_input_files_records_no_change(case, staged, code):
    assert ended(case, staged, submit(case, staged, case.app(), code)) == ("succeeded", "")


def test_an_edit_of_an_input_file_under_a_running_attempt_is_recorded(case, staged, code, gate):
    attempt = submit(case, staged, case.app(gate.script), code)
    code.write_text("two")
    gate.open()
    assert ended(case, staged, attempt) == ("succeeded", UNDER)


def test_an_edit_that_is_undone_while_the_attempt_runs_is_recorded(case, staged, code, gate):
    """The attempt may have read the edited file."""
    attempt = submit(case, staged, case.app(gate.script), code)
    code.write_text("two")
    code.write_text("one")
    gate.open()
    assert ended(case, staged, attempt) == ("succeeded", UNDER.replace("changed", "was written"))


def test_an_edit_before_the_start_that_is_undone_during_the_run_is_recorded(case, staged, code, gate):
    first, own = prepare(case, staged, gate.script), Gate(case.shared / "own")
    attempt = submit(case, staged, case.app(own.script), code, first)
    code.write_text("two")
    gate.open()
    staged.wait_for_start(attempt.app_id)
    code.write_text("one")
    own.open()
    assert ended(case, staged, attempt) == ("succeeded", UNDER)


def test_an_edit_that_is_undone_before_the_start_is_not_recorded(case, staged, code, gate):
    first = prepare(case, staged, gate.script)
    attempt = submit(case, staged, case.app(), code, first)
    code.write_text("two")
    code.write_text("one")
    gate.open()
    assert ended(case, staged, attempt) == ("succeeded", "")


def test_a_failed_app_is_not_compared_with_its_input_files(case, staged, code, gate):
    attempt = submit(case, staged, case.app(f"{gate.script}; exit 3"), code)
    code.write_text("two")
    gate.open()
    assert ended(case, staged, attempt) == ("failed", "")


def test_a_cancel_ends_a_long_comparison_of_input_files(case, staged, code, gate):
    """The app ends after the comparison: no client records a success that was not compared."""
    attempt = submit(case, staged, case.app(gate.script), code)
    os.truncate(code, 64 << 30)
    gate.open()
    while (shown := staged.record(attempt.app_id)) is None or shown.replicas[0].state != "succeeded":
        time.sleep(0.05)
    assert shown.state == "running"
    staged.cancel(attempt.app_id)
    os.truncate(code, 0)
    state, changed = ended(case, staged, attempt)
    assert (state, changed.startswith("its input files were not compared")) == ("succeeded", True)


def unheld(case: Case, changed: str) -> tuple[str, str]:
    """Return the outcome, with changes of its inputs, of a success whose holder was killed before.

    Processes are lost with their supervisor; an engine knows how its containers have ended.
    """
    return ("succeeded", changed) if case.name == "local_docker" else ("lost", "")


def test_a_success_has_its_changed_inputs_when_the_holder_is_killed_during_a_wait(
    case: Case, staged: Staged, code: Path, gate: Gate, launcher_home: Path
) -> None:
    attempt = submit(case, staged, case.app(gate.script), code)
    with ThreadPoolExecutor() as pool:
        waited = pool.submit(staged.wait, attempt.app_id, 60)
        time.sleep(1.0)
        code.write_text("two")
        kill_holder(attempt, launcher_home)
        gate.open()
        waited.result()
    found = staged.attempt(attempt.app_id)
    assert (found.state, found.inputs_changed) == unheld(case, UNDER)


def test_a_success_is_not_current_when_its_inputs_changed_and_no_holder_saw_its_end(
    case: Case, staged: Staged, code: Path, gate: Gate, launcher_home: Path
) -> None:
    """The edit is undone after the end: readers that change nothing say the same as the next holder."""
    attempt = submit(case, staged, case.app(f"{gate.script}"), code)
    code.write_text("two")
    kill_holder(attempt, launcher_home)
    gate.open()
    while (seen := staged.attempt(attempt.app_id)).state == "running":
        time.sleep(0.05)
    code.write_text("one")
    seen = staged.attempt(attempt.app_id)
    assert seen.state == unheld(case, "")[0]
    assert seen.state == "lost" or "not compared" in seen.inputs_changed
    assert judged(staged, attempt) == (seen.state, seen.inputs_changed)


def test_a_success_whose_end_no_holder_saw_is_current_when_its_inputs_are_unchanged(
    case: Case, staged: Staged, code: Path, gate: Gate, launcher_home: Path
) -> None:
    attempt = submit(case, staged, case.app(gate.script), code)
    kill_holder(attempt, launcher_home)
    gate.open()
    while (seen := staged.attempt(attempt.app_id)).state == "running":
        time.sleep(0.05)
    found = judged(staged, attempt)
    assert found == (seen.state, seen.inputs_changed) == unheld(case, "")
