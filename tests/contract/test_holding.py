"""Contract: an attempt waits until its needs have succeeded, at every scheduler that holds apps."""

from pathlib import Path
from typing import Any

import pytest

from launcher.errors import ReservedError, StartError
from launcher.schedulers import StagedScheduler
from launcher.specs import AppDef, AppState
from launcher.specs.attempt import Attempt, StoodOn
from tests import processes
from tests.contract.conftest import Case, Gate
from tests.contract.test_staged import attempt_of, seen, started, submit

Staged = StagedScheduler[Any]

AT_ONCE = 16  # apps that a client ends at once on Docker, each in a thread; the others take a list of apps


@pytest.fixture
def staged(staged: Staged) -> Staged:
    if staged.backend not in staged.holds:
        pytest.skip(f"{staged.backend} holds no apps")
    return staged


def needing(*needs: Attempt) -> tuple[StoodOn, ...]:
    return tuple(StoodOn(n.key.job, n.number, n.edition, n.app_id, n.scheduler) for n in needs)


def prepare(case: Case, staged: Staged, script: str, job: str = "prepare", number: int = 1) -> Attempt:
    """Start an attempt of the job that the waiting attempts need."""
    app = case.app(script)
    return started(staged, attempt_of(case, app, number, case.key(job)), app)


def hold(
    case: Case, staged: Staged, app: AppDef, *needs: Attempt, job: str = "train", number: int = 1, **cfg: Any
) -> Attempt:
    """Submit an attempt that waits."""
    attempt = attempt_of(case, app, number, case.key(job))
    return started(staged, attempt, app, cfg, waits_for=needing(*needs))


def holder_of(attempt: Attempt, home: Path) -> int:
    """Return the pid of the process that holds a waiting attempt."""
    return processes.supervisors(str(home))[attempt.app_id]


def ended(case: Case, staged: Staged, attempt: Attempt) -> tuple[str, str]:
    """Wait for the end of an attempt; return its state and its message."""
    case.end(attempt.app_id)
    found = staged.attempt(attempt.app_id)
    return found.state, found.message


def test_an_attempt_starts_when_its_need_has_succeeded(case: Case, staged: Staged, gate: Gate) -> None:
    first = prepare(case, staged, f"{gate.script}; echo model >{case.shared}/model")
    attempt = hold(case, staged, case.app(f"cat {case.shared}/model"), first)
    assert seen(staged, first.app_id) == [(attempt.app_id, "waiting")]
    gate.open()
    assert ended(case, staged, attempt) == ("succeeded", "")
    assert case.lines(attempt.app_id) == ["model\n"]


def test_a_waiting_attempt_names_its_needs_and_its_holder_and_no_other_client_takes_it(
    case, staged, gate, launcher_home
):
    first = prepare(case, staged, gate.script)
    attempt = hold(case, staged, case.app(), first)
    found = staged.attempt(attempt.app_id)
    assert (found.state, found.message) == ("waiting", "waits for prepare")
    assert found.owner.startswith(f"{case.holder} ")
    if case.holder == "pid":
        assert found.owner.startswith(f"pid {holder_of(attempt, launcher_home)} ")
    described = staged.describe(attempt.app_id)
    assert (described.state, described.msg) == (AppState.PENDING, "waits for prepare")
    shown = staged.record(attempt.app_id)
    assert (shown.state, shown.message) == ("waiting", "waits for prepare")
    [listed] = [each for each in case.listed() if each.app_id == attempt.app_id]
    assert listed.state is AppState.PENDING
    [record] = staged.refresh([attempt.app_id])
    assert (record.state, record.message) == ("waiting", "waits for prepare")
    [record] = [each for each in staged.records() if each.app_id == attempt.app_id]
    assert (record.state, record.message) == ("waiting", "waits for prepare")
    with pytest.raises(ReservedError, match="waiting"):
        case.another().reserve(attempt)


def test_wait_for_start_returns_when_the_attempt_has_started_or_never_will(case, staged, gate):
    first = prepare(case, staged, gate.script)
    attempt = hold(case, staged, case.app(), first)
    other = hold(case, staged, case.app(), attempt, prepare(case, staged, "exit 3", "fetch"), job="evaluate")
    staged.wait_for_start(other.app_id)
    never = staged.attempt(other.app_id)
    assert (never.state, never.started_at) == ("skipped", None)
    gate.open()
    staged.wait_for_start(attempt.app_id)
    found = staged.attempt(attempt.app_id)
    assert found is not None
    assert found.started_at is not None
    assert ended(case, staged, attempt) == ("succeeded", "")
    staged.wait_for_start(attempt.app_id)  # at once


@pytest.mark.parametrize("what", ["failed", "cancelled"])
def test_all_attempts_behind_a_need_that_does_not_succeed_are_skipped(case, staged, gate, what):
    first = prepare(case, staged, f"{gate.script}; exit 3")
    attempt = hold(case, staged, case.app(f"touch {case.shared}/ran"), first)
    behind = hold(case, staged, case.app(), attempt, job="evaluate")
    if what == "failed":
        gate.open()
    else:
        staged.cancel(first.app_id)
    message = {"failed": "prepare failed", "cancelled": "prepare was cancelled"}[what]
    assert ended(case, staged, behind) == ("skipped", "train was skipped")
    assert ended(case, staged, attempt) == ("skipped", message)
    assert not (case.shared / "ran").exists()
    described = staged.describe(attempt.app_id)
    assert (described.state, described.msg) == (AppState.CANCELLED, message)
    shown = staged.record(attempt.app_id)
    assert (shown.state, shown.message) == ("skipped", message)
    assert (attempt.app_id, "skipped") in [(each.app_id, each.state) for each in staged.reap()]


def test_an_attempt_counts_needs_that_ended_before_its_submission(case: Case, staged: Staged) -> None:
    good = prepare(case, staged, "true")
    bad = [prepare(case, staged, "exit 1", job) for job in ("clean", "fetch")]
    for each in (good, *bad):
        case.end(each.app_id)
    assert ended(case, staged, hold(case, staged, case.app(), good))[0] == "succeeded"
    skipped = hold(case, staged, case.app(), *bad, good, job="other")
    assert ended(case, staged, skipped) == ("skipped", "clean failed, fetch failed")


def test_attempts_in_a_chain_of_needs_run_in_order(case: Case, staged: Staged, gate: Gate) -> None:
    log = f">>{case.shared}/order"
    first = prepare(case, staged, f"{gate.script}; echo first {log}")
    second = hold(case, staged, case.app(f"echo second {log}"), first)
    third = hold(case, staged, case.app(f"echo third {log}"), second, job="evaluate")
    gate.open()
    assert ended(case, staged, third)[0] == "succeeded"
    assert (case.shared / "order").read_text().split() == ["first", "second", "third"]


def test_a_waiting_attempt_needs_no_client(case: Case, staged: Staged, gate: Gate) -> None:
    first = prepare(case, staged, gate.script)
    attempt = hold(case, staged, case.app(), first)
    staged.close()
    gate.open()
    assert case.end(attempt.app_id).state is AppState.SUCCEEDED


def test_a_missing_executable_is_found_before_the_attempt_waits(case, staged, gate, launcher_home):
    if not case.looks_ahead:
        pytest.skip(f"{case.name} sees on a node which commands there are")
    first = prepare(case, staged, gate.script)
    before = case.rests_of(launcher_home)
    app = case.app()
    app.roles[0].entrypoint = "no-such-command"
    with pytest.raises(StartError, match="r/0"):
        hold(case, staged, app, first)
    assert case.rests_of(launcher_home) == before


def test_a_waiting_attempt_that_is_cancelled_is_cancelled(case: Case, staged: Staged, gate: Gate) -> None:
    first = prepare(case, staged, gate.script)
    attempt = hold(case, staged, case.app(f"touch {case.shared}/ran"), first)
    staged.cancel(attempt.app_id)
    state, message = ended(case, staged, attempt)
    assert state == "cancelled"
    assert message.startswith("cancelled by ")
    gate.open()
    case.end(first.app_id)
    assert not (case.shared / "ran").exists()


@pytest.mark.everywhere
def test_a_waiting_attempt_can_be_withdrawn_and_no_running_or_unknown_one(case, staged, gate, launcher_home):
    first = prepare(case, staged, gate.script)
    attempt = hold(case, staged, case.app(), first)
    case.until_running(first.app_id)
    assert not staged.withdraw(first.app_id)
    assert not staged.withdraw("train-7-xxxxx")
    assert staged.withdraw(attempt.app_id)
    assert attempt.app_id not in processes.supervisors(str(launcher_home))
    assert case.left_of(attempt.app_id, launcher_home) == []
    assert ended(case, staged, attempt) == ("skipped", "withdrawn")
    assert not staged.withdraw(attempt.app_id)
    with pytest.raises(ReservedError, match="skipped"):
        staged.reserve(attempt)
    following = hold(case, staged, case.app("echo new"), first, number=2)
    gate.open()
    assert ended(case, staged, following)[0] == "succeeded"


@pytest.mark.parametrize("how", ["withdrawn", "cancelled"])
def test_a_need_and_its_waiting_attempts_can_be_withdrawn_or_cancelled_together(case, staged, gate, how):
    first = prepare(case, staged, gate.script)
    need = hold(case, staged, case.app(), first, job="need")
    count = 4 + (AT_ONCE if case.name == "local_docker" else 0)
    attempts = [need, *(hold(case, staged, case.app(), need, job=f"last-{n}") for n in range(count))]
    ids = [each.app_id for each in attempts]
    dict(staged.withdraw_all(ids) if how == "withdrawn" else staged.cancel_all(ids))
    assert {ended(case, staged, each)[1].partition(" ")[0] for each in attempts} == {how}


def test_an_attempt_that_is_withdrawn_at_its_start_either_runs_or_is_skipped(case, staged, gate):
    """Withdrawals race the start: for each attempt exactly one of both takes effect."""
    first = prepare(case, staged, gate.script)
    waiting = [hold(case, staged, case.app("true"), first, job=f"train{k}") for k in range(6)]
    gate.open()
    withdrawn = [staged.withdraw(each.app_id) for each in waiting]
    ends = [ended(case, staged, each) for each in waiting]
    assert ends == [("skipped", "withdrawn") if each else ("succeeded", "") for each in withdrawn]


def test_a_waiting_attempt_whose_holder_has_died_is_unfinished(case, staged, gate, launcher_home):
    """The attempt is resumed under the same number, and waits again."""
    if case.holder != "pid":
        pytest.skip(f"no process holds apps of {case.name}")
    first = prepare(case, staged, gate.script)
    app = case.app("echo once")
    attempt = hold(case, staged, app, first)
    holder = holder_of(attempt, launcher_home)
    processes.kill([holder])
    assert processes.gone([holder], timeout_s=20)
    found = staged.attempt(attempt.app_id)
    assert (found.state, found.owner) == ("waiting", "")
    hold(case, staged, app, first)
    found = staged.attempt(attempt.app_id)
    assert found.owner
    gate.open()
    assert ended(case, staged, attempt)[0] == "succeeded"
    assert case.lines(attempt.app_id) == ["once\n"]


@pytest.mark.parametrize("how", ["withdraw", "cancel"])
def test_a_waiting_attempt_without_a_holder_can_be_cancelled_or_withdrawn(
    case, staged, gate, launcher_home, how
):
    if case.holder != "pid":
        pytest.skip(f"no process holds apps of {case.name}")
    first = prepare(case, staged, gate.script)
    attempt = hold(case, staged, case.app(), first)
    holder = holder_of(attempt, launcher_home)
    processes.kill([holder])
    assert processes.gone([holder], timeout_s=20)
    if how == "withdraw":
        assert staged.withdraw(attempt.app_id)
    else:
        staged.cancel(attempt.app_id)
    assert ended(case, staged, attempt)[0] == {"withdraw": "skipped", "cancel": "cancelled"}[how]


def test_a_skipped_attempt_does_not_hide_the_attempt_before_it(case, staged, gate):
    good = submit(case, staged, case.app("true"))
    case.end(good.app_id)
    first = prepare(case, staged, gate.script)
    attempt = hold(case, staged, case.app("echo new"), first, number=2)
    assert staged.withdraw(attempt.app_id)
    staged.reap()
    found = {each.number: each.state for each in staged.observe([case.key()]) if each.key == case.key()}
    assert found[2] == "skipped"
    assert found.get(1, "succeeded") == "succeeded"
