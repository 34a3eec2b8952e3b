"""Contract: reserve, create, start, abort and observe, which plan and apply call."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.errors import ReservedError, StartError
from launcher.schedulers import StagedScheduler
from launcher.specs import AppDef, AppState
from launcher.specs.attempt import Attempt
from launcher.specs.canonical import digest, document
from launcher.specs.launch import JobKey, Launch, attempt_id
from tests import processes
from tests.contract.conftest import Case

Staged = StagedScheduler[Any]


def attempt_of(case: Case, app: AppDef, number: int = 1, key: JobKey | None = None) -> Attempt:
    key = key or case.key()
    launch = Launch(key=key, app=app, scheduler=case.name, root="/", file="f", origin="o")
    made = document(launch)
    return Attempt(
        key=key,
        number=number,
        app_id=attempt_id(key, number),
        scheduler=case.name,
        digest=digest(made),
        document=made,
        origin="o",
        matrix="sweep",
        reason="changed: roles.r.args[0], at 3.5 → “4”",
        created_at=1.5,
    )


def submit(case: Case, staged: Staged, app: AppDef, number: int = 1, **cfg: Any) -> Attempt:
    attempt = attempt_of(case, app, number)
    reservation = staged.reserve(attempt)
    staged.create(reservation, app, cfg)
    staged.start(reservation)
    return attempt


def observed(staged: Staged, *settled: str, job: str = "train") -> list[Attempt]:
    """Return the observed attempts of this test's jobs: a shared engine shows those of other tests, too."""
    project = staged.session_name
    found = staged.observe([JobKey(project, "default", job)], settled)
    return [attempt for attempt in found if attempt.key.project == project]


def seen(staged: Staged, *settled: str, job: str = "train") -> list[tuple[str, str]]:
    return sorted((found.app_id, found.state) for found in observed(staged, *settled, job=job))


@pytest.mark.everywhere
def test_an_attempt_is_first_reserved_then_created_then_running(case: Case, staged: Staged) -> None:
    app = case.app("exec sleep 1000")
    attempt = attempt_of(case, app)
    states = []
    assert observed(staged) == []
    reservation = staged.reserve(attempt)
    states += seen(staged)
    staged.create(reservation, app, {})
    states += seen(staged)
    staged.start(reservation)
    case.until_running(attempt.app_id)
    states += seen(staged)
    assert [state for _, state in states] == ["reserved", "created", "running"]


def test_observe_returns_the_attempt_as_it_was_reserved(case: Case, staged: Staged) -> None:
    attempt = submit(case, staged, case.app("exec sleep 1000"))
    case.until_running(attempt.app_id)
    (found,) = observed(staged, job="other")
    assert replace(found, state="reserved", started_at=None, images={}) == attempt
    assert staged.attempt(attempt.app_id) == found


def test_a_reservation_shows_its_owner(case: Case, staged: Staged) -> None:
    reservation = staged.reserve(attempt_of(case, case.app()))
    (found,) = observed(staged)
    assert f"pid {os.getpid()} " in found.owner
    staged.abort(reservation)


def test_the_latest_attempt_of_a_job_is_observed_after_its_end(case: Case, staged: Staged) -> None:
    first = submit(case, staged, case.app("true"), 1)
    case.end(first.app_id)
    second = submit(case, staged, case.app("exit 3"), 2)
    case.end(second.app_id)
    staged.reap()
    (found,) = observed(staged)
    assert (found.app_id, found.state, found.exit_code) == (second.app_id, "failed", 3)
    assert found.ended_at is not None


def test_observe_returns_other_jobs_while_they_run(case: Case, staged: Staged) -> None:
    attempt = submit(case, staged, case.app("exec sleep 1000"))
    case.until_running(attempt.app_id)
    assert seen(staged, job="other") == [(attempt.app_id, "running")]
    staged.cancel(attempt.app_id)
    staged.reap()
    assert seen(staged, job="other") == []


def test_observe_leaves_out_attempts_with_a_known_outcome(case: Case, staged: Staged) -> None:
    attempt = submit(case, staged, case.app("true"))
    case.end(attempt.app_id)
    assert seen(staged, attempt.app_id) == []


def test_apps_without_a_job_are_not_observed(case: Case, staged: Staged) -> None:
    case.start(case.app("exec sleep 1000"))
    assert observed(staged) == []


def test_observing_writes_nothing(case: Case, staged: Staged, launcher_home: Path) -> None:
    assert observed(staged) == []
    assert staged.attempt("train-1-x") is None
    assert not launcher_home.exists()


def test_a_taken_id_is_refused_with_its_owner(case: Case, staged: Staged) -> None:
    attempt = attempt_of(case, case.app())
    reservation = staged.reserve(attempt)
    with pytest.raises(ReservedError) as error:
        case.another().reserve(attempt)
    assert f"pid {os.getpid()} " in error.value.owner
    staged.abort(reservation)


def test_an_attempt_that_was_started_is_never_reserved_again(case: Case, staged: Staged) -> None:
    attempt = submit(case, staged, case.app("true"))
    case.end(attempt.app_id)
    with pytest.raises(ReservedError, match="succeeded"):
        staged.reserve(attempt)


@pytest.mark.everywhere
def test_an_aborted_reservation_leaves_nothing(case: Case, staged: Staged, launcher_home: Path) -> None:
    app = case.app()
    for create in (False, True):
        reservation = staged.reserve(attempt_of(case, app))
        if create:
            staged.create(reservation, app, {})
        staged.abort(reservation)
        staged.abort(reservation)
        assert seen(staged) == []
        assert case.rests_of(launcher_home) == []
        assert processes.of_home(str(launcher_home)) == []


def test_a_missing_executable_is_found_before_anything_starts(case, staged, launcher_home):
    if not case.looks_ahead:
        pytest.skip(f"{case.name} sees on a node which commands there are")
    app = case.app("echo never")
    app.roles[0].entrypoint = "no-such-command"
    reservation = staged.reserve(attempt_of(case, app))
    with pytest.raises(StartError, match="r/0"):
        staged.create(reservation, app, {})
    assert seen(staged) == []
    assert case.rests_of(launcher_home) == []


@pytest.mark.everywhere
def test_a_started_attempt_does_not_need_its_client(case: Case, staged: Staged) -> None:
    attempt = submit(case, staged, case.app("exec sleep 1000"))
    staged.close()
    case.until_running(attempt.app_id)
    assert seen(case.another()) == [(attempt.app_id, "running")]


@pytest.mark.everywhere
def test_nothing_runs_before_the_start(case: Case, staged: Staged) -> None:
    app = case.app(f"touch {case.shared}/ran")
    reservation = staged.reserve(attempt_of(case, app))
    staged.create(reservation, app, {})
    assert not (case.shared / "ran").exists()
    staged.start(reservation)
    case.end(reservation.app_id)
    assert (case.shared / "ran").exists()


KILLED = """
import os, sys, json
from launcher.schedulers import get_scheduler
from launcher.specs.attempt import Attempt
from launcher.specs.canonical import app_from_document
name, step, text = sys.argv[1:]
staged = get_scheduler(name, "x")
attempt = Attempt.from_json(json.loads(text))
reservation = staged.reserve(attempt)
if step == "created":
    staged.create(reservation, app_from_document(attempt.document, "train", {}), {})
print("there", flush=True)
sys.stdin.read()
"""


def killed_at(case: Case, step: str, attempt: Attempt) -> None:
    """Submit an attempt in a client that is killed at `step`."""
    import json

    argv = [sys.executable, "-c", KILLED, case.name, step, json.dumps(attempt.to_json())]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout.readline() == "there\n"
        client.send_signal(signal.SIGKILL)


@pytest.mark.everywhere
@pytest.mark.parametrize("step", ["reserved", "created"])
@pytest.mark.parametrize("same", [True, False])
def test_a_client_takes_over_the_attempt_of_a_killed_client(case, staged, launcher_home, step, same):
    attempt = attempt_of(case, case.app("echo one"))
    killed_at(case, step, attempt)
    assert processes.gone(processes.of_home(str(launcher_home)), timeout_s=60)
    for found in observed(staged):
        assert (found.state, found.owner) == ("reserved", "")
    app = case.app("echo one" if same else "echo two")
    submit(case, staged, app)
    assert case.end(attempt.app_id).state is AppState.SUCCEEDED
    assert case.lines(attempt.app_id) == ["one\n" if same else "two\n"]


@pytest.mark.everywhere
def test_reap_returns_each_end_once(case: Case, staged: Staged) -> None:
    attempt = submit(case, staged, case.app("exit 3"))
    case.end(attempt.app_id)
    found = [(each.app_id, each.state, each.exit_code) for each in staged.reap()]
    assert found == [(attempt.app_id, "failed", 3)]
    assert staged.reap() == []


def test_the_handle_of_an_attempt_names_its_target(case: Case, staged: Staged) -> None:
    app = case.app('echo "$LAUNCHER_JOB_ID"')
    attempt = attempt_of(case, app, key=case.key(target="prod"))
    reservation = staged.reserve(attempt)
    staged.create(reservation, app, {})
    staged.start(reservation)
    case.end(attempt.app_id)
    assert case.lines(attempt.app_id) == [f"{case.name}://{case.session}.prod/{attempt.app_id}\n"]
    assert [each.app_handle for each in case.listed()] == [attempt.handle]


def test_the_fingerprint_names_the_engine_and_nothing_else(case: Case, staged: Staged) -> None:
    first = staged.fingerprint()
    observed(staged)
    assert case.another().fingerprint() == first


def test_a_lost_app_leaves_no_process(case: Case, staged: Staged, launcher_home: Path) -> None:
    if not case.supervised:
        pytest.skip(f"an app of {case.name} goes on without its watcher")
    attempt = submit(case, staged, case.app("(trap '' TERM HUP; sleep 1000) & sleep 1000", replicas=2))
    supervisor = processes.supervisors(str(launcher_home))[attempt.app_id]
    processes.kill([supervisor])
    assert processes.gone([supervisor], timeout_s=60)
    assert seen(staged) == [(attempt.app_id, "lost")]
    found = staged.describe(attempt.app_id)
    assert case.left_of(attempt.app_id, launcher_home) == []
    assert found.state is AppState.FAILED
    assert found.msg.startswith("lost")
    assert seen(staged) == [(attempt.app_id, "lost")]
