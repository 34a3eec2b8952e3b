"""Contract: reserve, create, start, abort and observe, which plan and apply call."""

import json
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
from tests.waiting import until

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
    return started(staged, attempt_of(case, app, number), app, cfg)


def started(staged: Staged, attempt: Attempt, app: AppDef, cfg: Any = (), **fields: Any) -> Attempt:
    """Submit the attempt, whose reservation gets these fields; return it."""
    reservation = staged.reserve(attempt)
    for name, value in fields.items():
        setattr(reservation, name, value)
    staged.create(reservation, app, dict(cfg))
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
def test_an_attempt_is_reserved_created_and_then_running_and_nothing_runs_before(case, staged):
    ran = case.shared / "ran"
    app = case.app(f"touch {ran}; exec sleep 1000")
    attempt = attempt_of(case, app)
    states = []
    assert observed(staged) == []
    reservation = staged.reserve(attempt)
    states += seen(staged)
    staged.create(reservation, app, {})
    states += seen(staged)
    assert not ran.exists()
    staged.start(reservation)
    case.until_running(attempt.app_id)
    states += seen(staged)
    assert [state for _, state in states] == ["reserved", "created", "running"]
    until(ran.exists)


def test_a_live_attempt_is_observed_as_it_was_reserved_beside_any_other_job(case, staged):
    case.start(case.app("exec sleep 1000"))  # an app without a job is not observed
    attempt = submit(case, staged, case.app("exec sleep 1000"))
    case.until_running(attempt.app_id)
    (found,) = observed(staged, job="other")
    assert replace(found, state="reserved", started_at=None, images={}) == attempt
    assert staged.attempt(attempt.app_id) == found
    about = staged.about(attempt.app_id)
    assert (about["digest"], about["document"]) == (attempt.digest, attempt.document)
    assert staged.about(attempt_id(attempt.key, 9)) == {}
    assert staged.has_apps_here()
    assert staged.is_in_use()
    staged.cancel(attempt.app_id)
    staged.reap()
    assert seen(staged, job="other") == []


def test_a_reservation_is_live_and_shows_its_owner_also_to_a_client_that_wants_its_id(case, staged):
    owner = f"pid {os.getpid()} "
    reservation = staged.reserve(attempt_of(case, case.app()))
    (found,) = observed(staged)
    assert owner in found.owner
    (record,) = staged.refresh([reservation.app_id])
    assert not record.has_ended
    with pytest.raises(ReservedError) as error:
        case.another().reserve(attempt_of(case, case.app()))
    assert owner in error.value.owner
    staged.abort(reservation)
    assert list(staged.refresh([reservation.app_id])) == []


def test_the_latest_ended_attempt_of_a_job_is_observed_until_its_outcome_is_known(case, staged):
    first = submit(case, staged, case.app("true"), 1)
    case.end(first.app_id)
    second = submit(case, staged, case.app("exit 3"), 2)
    case.end(second.app_id)
    assert seen(staged, first.app_id, second.app_id) == []
    staged.reap()
    (found,) = observed(staged)
    assert (found.app_id, found.state, found.exit_code) == (second.app_id, "failed", 3)
    assert found.ended_at is not None
    with pytest.raises(ReservedError, match="succeeded"):
        staged.reserve(first)


def test_observing_writes_nothing(case: Case, staged: Staged, launcher_home: Path) -> None:
    assert observed(staged) == []
    assert staged.attempt("train-1-x") is None
    assert not launcher_home.exists()


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


def test_a_started_attempt_does_not_need_its_client(case: Case, staged: Staged) -> None:
    attempt = submit(case, staged, case.app("exec sleep 1000"))
    staged.close()
    case.until_running(attempt.app_id)
    assert seen(case.another()) == [(attempt.app_id, "running")]


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


@pytest.mark.parametrize(("step", "same"), [("created", True), ("created", False), ("reserved", False)])
def test_a_client_takes_over_the_attempt_of_a_killed_client(case, staged, launcher_home, step, same):
    attempt = attempt_of(case, case.app("echo one"))
    argv = [sys.executable, "-c", KILLED, case.name, step, json.dumps(attempt.to_json())]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout.readline() == "there\n"
        client.send_signal(signal.SIGKILL)
    assert processes.gone(processes.of_home(str(launcher_home)), timeout_s=60)
    for found in observed(staged):
        assert (found.state, found.owner) == ("reserved", "")
    app = case.app("echo one" if same else "echo two")
    submit(case, staged, app)
    assert case.end(attempt.app_id).state is AppState.SUCCEEDED
    assert case.lines(attempt.app_id) == ["one\n" if same else "two\n"]


def test_the_handle_of_an_attempt_names_its_target(case: Case, staged: Staged) -> None:
    app = case.app('echo "$LAUNCHER_JOB_ID"')
    attempt = started(staged, attempt_of(case, app, key=case.key(target="prod")), app)
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
