"""The state of an app from the facts that the agent gathers.

Facts of a released app in words, separated by `; `::

    PENDING Priority      a row of squeue: state and reason; `held PENDING …`: its priority is 0
    started               its script has run, since second 3
    needs a-1-x=failed …  the needs of its job and their ends, "" for none yet
    gone                  two looks at the queue did not find the job; Slurm knows nothing of it
    gone FAILED exit=0:9  Slurm knows its end, from second 60 to 120 on node n3; these fields differ
    said …                the last line that its job has printed
    asked by ada          a client has asked its conductor for the end
    cancelled by ada      a client has cancelled it before its start; so may `withdrawn`
    outcome {…}           the outcome on record
"""

import json
import time
from typing import Any

import pytest

from launcher.holding.use import ACCOUNTING, Use
from launcher.schedulers import owner
from launcher.schedulers.slurm.state import (
    LEFT,
    LEFT_UNSTARTED,
    RUN_AGAIN,
    is_held,
    is_new_end,
    new_ends,
    seen_app,
    undecided_needs,
    whole_app,
)
from launcher.specs.attempt import Attempt, StoodOn
from launcher.specs.jobkey import JobKey
from tests.holding.histories import created, fact

NEEDS = (
    StoodOn("Data_set.v2", 3, 3, "vision-3-odx2y", "slurm"),
    StoodOn("prepare", 1, 1, "prepare-1-x", "slurm"),
)
ATTEMPT = Attempt(
    key=JobKey("p", "default", "train"),
    number=2,
    app_id="train-2-x",
    scheduler="slurm",
    digest="d",
    document={"roles": [{"name": "a", "num_replicas": 2}, {"name": "b"}]},
    needs=NEEDS,
    created_at=1.5,
)
NOWHERE = {"host": "elsewhere", "boot": "b", "pid": 1, "start": 1, "user": "u", "home": "/h", "nonce": "n"}
END = {"exit": "0:0", "reason": "None", "start": 60.0, "end": 120.0, "nodes": "n3"}


def facts(**fields: Any) -> dict[str, Any]:
    """Return the facts of an app that was reserved."""
    empty = dict.fromkeys(("owner", "created", "job", "submitted", "started", "cancel", "outcome", "ended"))
    folder = {"attempt": ATTEMPT.to_json(), "folder": "/j/apps/train-2-x"}
    return {**folder, **empty, "queue": [], "needs": {}, "vanished": False, **fields}


def of(text: str, **fields: Any) -> dict[str, Any]:
    """Return the facts of a released app, from words as above."""
    found = facts(created=1.0, job="12", submitted=2.0)
    for word, _, rest in (each.partition(" ") for each in text.split("; ") if each):
        if word == "started":
            found["started"] = {"job": "12", "at": 3.0}
        elif word in ("cancelled", "withdrawn"):
            found["started"] = {word: True, "at": 5.0, **({"message": f"{word} {rest}"} if rest else {})}
        elif word == "asked":
            found["cancel"] = {"message": f"cancelled {rest}"}
        elif word == "needs":
            found["needs"] = dict(each.split("=") for each in rest.split())
        elif word == "said":
            found["said"] = rest
        elif word == "outcome":
            found["outcome"] = json.loads(rest)
        elif word == "gone":
            found |= {"vanished": True, "ended": end(rest) if rest else None}
        else:
            state, _, reason = (rest if word == "held" else f"{word} {rest}").partition(" ")
            found["queue"].append(row(state, reason, held=word == "held"))
    return {**found, **fields}


def end(text: str) -> dict[str, Any]:
    words = text.split()
    given: dict[str, Any] = dict(each.split("=") for each in words if "=" in each)
    times = {name: float(given[name] or 0) or None for name in ("start", "end") if name in given}
    return {**END, "state": " ".join(each for each in words if "=" not in each), **given, **times}


def row(state: str, reason: str = "", held: bool = False, start_at: float | None = None) -> dict[str, Any]:
    start_at = 1e9 if held else start_at
    about = {"job": "12", "state": state, "reason": reason, "held": held}
    return {**about, "submitted_at": 1.0, "start_at": start_at}


def cases(text: str) -> list[Any]:
    """Return the rows of a table, split at `|`; the facts of a row are its id."""
    rows = [[each.strip() for each in line.split("|")] for line in text.strip().splitlines()]
    return [pytest.param(*row, id=row[0] or "nothing") for row in rows]


def shown(found: dict[str, Any]) -> str:
    """Return state, exit code and message of an app."""
    record = seen_app(found).record
    code = "" if record.exit_code is None else f" {record.exit_code}"
    return f"{record.state}{code}: {record.message}".strip()


# -- submissions -------------------------------------------------------------------------------------------


def here(**changes: Any) -> dict[str, Any]:
    made = owner.this_process()
    fields = {name: getattr(made, name) for name in ("host", "boot", "pid", "start", "user", "home")}
    return {**fields, "nonce": "n", "at": time.time(), **changes}


@pytest.mark.parametrize(("client", "how", "is_alive"), [
    ({}, {}, True), ({"pid": 1 << 30}, {}, False), (None, {}, False),
    ({**NOWHERE, "at": 0.0, "quiet_s": 5.0}, {}, True), ({**NOWHERE, "at": 4e9, "quiet_s": 5.0}, {}, True),
    ({**NOWHERE, "at": 4e9, "quiet_s": owner.PATIENCE_S + 1}, {}, False),
    ({**NOWHERE, "at": 1000.0}, {"now": 1500.0}, True), ({**NOWHERE, "at": 1000.0}, {"now": 1700.0}, False),
    ({**NOWHERE, "at": 1000.0}, {"now": 1500.0, "take_over": True}, False),
])  # fmt: skip
def test_a_submission_is_unfinished_without_a_living_client(client, how, is_alive):
    """A client on another machine counts as dead after ten silent minutes, or when the user says so."""
    for made in (None, 1.0):
        app = seen_app(facts(owner=None if client is None else here(**client), created=made), **how)
        name = "pid 1 on elsewhere" if client else str(owner.this_process())
        assert app.owner == (name if is_alive else "")
        assert app.record.state == ("created" if made and is_alive else "reserved")


# -- states and ends ---------------------------------------------------------------------------------------

WAITS, HELD = "waits in Slurm's queue", "`scontrol release 12` lets it start"
NEVER = "reason=DependencyNeverSatisfied"
NO_ROOM = "there was no room in /j/apps/train-2-x: a full disk, or a quota"
FULL = "/j/apps/train-2-x/slurm.out: is its disk full, or is it not shared?"
STATES = f"""
PENDING Priority                             | queued: {WAITS}: Priority
PENDING None                                 | queued: {WAITS}
held PENDING JobHeldUser                     | queued: {WAITS}: JobHeldUser; {HELD}
held PENDING JobHeldAdmin | queued: {WAITS}: JobHeldAdmin; an administrator has to release it
held PENDING Reservation brief was deleted   | queued: {WAITS}: Reservation brief was deleted; {HELD}
held PENDING None                            | queued: {WAITS}; {HELD}
PENDING Dependency; needs prepare-1-x= other-1-x=succeeded | waiting: waits for prepare
needs vision-3-odx2y= prepare-1-x=           | waiting: waits for Data_set.v2, prepare
started; PENDING BeginTime                   | queued: Slurm runs it again: {WAITS}: BeginTime
                                             | queued: {WAITS}
started                                      | running:
started; RUNNING                             | running:
started; COMPLETING                          | running:
CONFIGURING                                  | running:
SUSPENDED                                    | running: suspended in Slurm
started; held SUSPENDED                      | running: suspended in Slurm; `scontrol resume 12` lets it go on
"""
PROLOG = "Error running slurm prolog"
ENDS = f"""
started; held PENDING JobHeldUser; gone              | lost: {RUN_AGAIN}
started; gone TIMEOUT                                | failed: timed out after 1 min
started; gone TIMEOUT end=7261                      | failed: timed out after 2 h
started; gone TIMEOUT end=119                       | failed: timed out after 59 s
started; gone TIMEOUT end=5460                      | failed: timed out after 90 min
started; gone TIMEOUT end=3660                      | failed: timed out after 1 h
started; gone TIMEOUT end=172830                    | failed: timed out after 2 d
started; gone TIMEOUT start=                        | failed: timed out
started; gone TIMEOUT end=                          | failed: timed out
gone DEADLINE                                        | failed: Slurm could not end it by its deadline
started; gone NODE_FAIL                              | failed: node n3 failed
started; gone NODE_FAIL nodes=n1,n2                  | failed: one of its nodes failed: n1,n2
started; gone NODE_FAIL nodes=n[1-3]                | failed: one of its nodes failed: n[1-3]
started; gone NODE_FAIL nodes=                      | failed: a node failed
started; gone OUT_OF_MEMORY                          | failed 137: killed: out of memory
started; gone PREEMPTED                              | failed: was preempted
started; gone CANCELLED by 1000                      | cancelled: cancelled in Slurm
started; gone CANCELLED+                             | cancelled: cancelled in Slurm
started; gone FAILED exit=0:9                       | failed 137: killed by signal 9
started; gone FAILED exit=3:0                       | failed 3: its batch script exited with 3
started; gone FAILED exit=28:0                      | failed 28: its batch script exited with 28
said no python3; gone FAILED exit=127:0             | failed 127: its batch script exited with 127: no python3
started; gone FAILED reason=NonZeroExitCode         | failed: Slurm could not run it: NonZeroExitCode
started; gone BOOT_FAIL                              | failed: failed in Slurm
started; gone BOOT_FAIL reason=                     | failed: failed in Slurm
started; gone FAILED exit=                          | failed: failed in Slurm
started; gone FAILED exit=0:53 reason=JobLaunchFailure | failed: the node cannot open {FULL}
started; gone COMPLETED                              | lost: {LEFT}; Slurm knows it as COMPLETED
started; gone                                        | lost: {LEFT}
gone FAILED exit=28:0                               | failed: {NO_ROOM}
gone                                                 | lost: {LEFT_UNSTARTED}
said no python3; gone                               | lost: {LEFT_UNSTARTED}; its last output: no python3
said killed; started; gone                          | lost: {LEFT}; its last output: killed
said {PROLOG}: 1; gone CANCELLED                    | failed: the prolog failed on node n3: {PROLOG}: 1
said {PROLOG}: 1; gone CANCELLED nodes=             | failed: the prolog failed: {PROLOG}: 1
said {PROLOG}: 1; started; gone CANCELLED           | cancelled: cancelled in Slurm
gone; asked by ada@laptop                            | cancelled: cancelled by ada@laptop
started; asked by ada; gone FAILED                   | cancelled: cancelled by ada
cancelled by ada; gone                               | cancelled: cancelled by ada
cancelled by ada; PENDING Priority                   | cancelled: cancelled by ada
cancelled; gone                                      | cancelled: cancelled
withdrawn; gone                                      | skipped: withdrawn
gone CANCELLED                                       | cancelled: cancelled in Slurm
gone CANCELLED; needs prepare-1-x=failed             | skipped: prepare failed
gone CANCELLED; needs prepare-1-x=cancelled          | skipped: prepare was cancelled
gone CANCELLED; needs prepare-1-x=removed            | skipped: prepare was removed
gone; needs prepare-1-x=failed data-1-y=lost         | skipped: prepare failed, data was lost
gone; needs prepare-1-x=succeeded x-1-y=             | lost: {LEFT_UNSTARTED}
gone CANCELLED {NEVER}; needs prepare-1-x= | skipped: a job that it needs did not succeed
started; gone; needs prepare-1-x=failed              | lost: {LEFT}
"""


@pytest.mark.parametrize(("text", "state"), cases(STATES))
def test_the_state_of_a_live_app_follows_from_its_files_and_its_rows(text, state):
    assert shown(of(text)) == state
    assert seen_app(of(text)).owner == ("" if state.startswith("running") else "Slurm job 12")
    assert not is_new_end(of(text))


@pytest.mark.parametrize(("text", "state"), cases(ENDS))
def test_the_end_of_an_app_without_an_outcome_follows_from_its_files_and_its_job(text, state):
    """Slurm purges a job soon after its end, and a client may be cut off after its decision."""
    assert shown(of(text)) == state
    assert is_new_end(of(text))
    assert seen_app(of(text)).owner == ""
    (outcome,) = new_ends({"train-2-x": of(text)}).values()
    assert shown(of("RUNNING", outcome=outcome)) == state


OUTCOME = '{"state": "succeeded", "started_at": 3.0, "ended_at": 4.0, "exit_code": 0, "restarts": 2}'
TIMES = f"""
PENDING                                                 | None None 0 None
RUNNING                                                 | None None 0 None
started; RUNNING                                        | 3.0 None 0 None
started; PENDING                                        | 3.0 None 0 None
started                                                 | 3.0 None 0 None
started; RUNNING; gone; outcome {OUTCOME}               | 3.0 4.0 2 0
outcome {{"state": "skipped", "ended_at": 4.0}}         | None 4.0 0 None
started; gone FAILED exit=3:0                          | 3.0 120.0 0 3
started; gone                                           | 3.0 None 0 None
gone CANCELLED                                          | None 120.0 0 None
cancelled                                               | None 5.0 0 None
withdrawn                                               | None 5.0 0 None
"""


@pytest.mark.parametrize(("text", "times"), cases(TIMES))
def test_the_view_of_an_app_has_its_start_end_restarts_and_exit_code(text, times):
    record, attempt = seen_app(of(text)).record, seen_app(of(text)).attempt()
    assert f"{record.started_at} {record.ended_at} {record.num_restarts} {record.exit_code}" == times
    assert attempt is not None
    for name in ("started_at", "ended_at", "exit_code"):
        assert getattr(attempt, name) == getattr(record, name)


def behind(text: str, app_id: str, need: str) -> dict[str, Any]:
    needs = [[need.partition("-")[0], 1, 1, need, "slurm"]]
    return of(text, attempt={**ATTEMPT.to_json(), "app_id": app_id, "needs": needs})


CHAIN = {
    "evaluate-1-x": behind("gone CANCELLED; needs train-2-x=", "evaluate-1-x", "train-2-x"),
    "train-2-x": of("gone CANCELLED; needs prepare-1-x=failed"),
}


def test_a_chain_that_slurm_cancelled_is_skipped_to_its_end():
    found = new_ends({**CHAIN, "prepare-1-x": of('outcome {"state": "failed"}')})
    assert {app_id: each["message"] for app_id, each in found.items()} == {
        "train-2-x": "prepare failed",
        "evaluate-1-x": "train was skipped",
    }


def test_a_need_whose_end_is_not_known_is_to_be_looked_up_first():
    alone = {"evaluate-1-x": CHAIN["evaluate-1-x"]}
    assert undecided_needs(alone) == ["train-2-x"]
    assert undecided_needs({**alone, "train-2-x": {}}) == undecided_needs(CHAIN) == []
    assert undecided_needs({"train-2-x": of("cancelled by ada; needs prepare-1-x=")}) == []


def test_needs_in_a_circle_come_to_an_end():
    text = "gone CANCELLED; needs {}="
    pairs = (("a-1-x", "b-1-x"), ("b-1-x", "a-1-x"))
    apps = {one: behind(text.format(other), one, other) for one, other in pairs}
    assert sorted(new_ends(apps)) == ["a-1-x", "b-1-x"]


def test_an_attempt_comes_back_as_it_was_reserved_with_its_present_state():
    seen = seen_app(of("started; RUNNING"))
    attempt, record = seen.attempt(), seen.record
    assert attempt is not None
    assert (attempt.key, attempt.number, attempt.needs) == (ATTEMPT.key, 2, NEEDS)
    assert (attempt.state, attempt.started_at, attempt.owner) == ("running", 3.0, "")
    assert (record.handle, record.name, record.number) == ("slurm://p/train-2-x", "train", 2)


def test_an_app_without_a_job_is_no_attempt():
    attempt = {"key": None, "name": "sim", "session": "s", "app_id": "sim-1", "created_at": 1.0}
    seen = seen_app(of("", attempt=attempt))
    assert seen.attempt() is None
    assert (seen.record.handle, seen.record.name, seen.record.job) == ("slurm://s/sim-1", "sim", None)


def test_only_a_submitted_job_that_slurm_has_is_on_hold():
    assert is_held(of("held PENDING JobHeldUser"))
    assert not is_held(of(""))
    assert not is_held(of("PENDING Priority"))
    assert not is_held(of("held PENDING JobHeldUser", submitted=None))


@pytest.mark.parametrize(("days", "form"), [(0, "%H:%M"), (2, "%Y-%m-%d %H:%M")])
def test_an_expected_start_has_a_date_unless_that_is_today(days, form):
    at = time.time() + days * 86400
    why = f"waits in Slurm's queue: Priority; starts about {time.strftime(form, time.localtime(at))}"
    assert shown(of("", queue=[row("PENDING", "Priority", start_at=at)])) == f"queued: {why}"


# -- replicas ----------------------------------------------------------------------------------------------


def held(text: str, events: str, **fields: Any) -> dict[str, Any]:
    """Return an app with these events, a second each, on its record, in the notation of `histories`."""
    made = [created("a*2~1 b<a:ready"), *map(fact, events.split("; "))]
    made = [{**each, "t": int(at * 1e9), "host": "n1"} for at, each in enumerate(made, 1)]
    return of(text, events=made, **fields)


@pytest.mark.parametrize(("found", "replicas"), [
    (held("started; RUNNING", "go; a/0; a/1; a/0=3"),
        "failed 3, running None, pending None waiting for a (ready)"),
    (held("started; PENDING", "go; a/0; a/1"),
        "pending None, pending None, pending None waiting for a (ready)"),
    (of("PENDING"), "pending None, pending None, pending None"),
    (of("gone"), "lost None, lost None, lost None"),
    (of("cancelled"), "cancelled None cancelled, cancelled None cancelled, cancelled None cancelled"),
])  # fmt: skip
def test_replicas_have_the_state_that_follows_from_the_events_and_the_state_of_their_app(found, replicas):
    made = whole_app(found).record.replicas
    assert ", ".join(f"{each.state} {each.exit_code} {each.message}".rstrip() for each in made) == replicas
    assert [(each.role, each.k) for each in made] == [("a", 0), ("a", 1), ("b", 0)]


def test_a_replica_of_a_live_app_has_the_host_and_the_times_of_its_last_run():
    first, second, _ = whole_app(held("started; RUNNING", "go; a/0; a/1; a/0=3")).record.replicas
    assert (first.host, first.started_at, first.ended_at) == ("n1", 3.0, 5.0)
    assert (second.host, second.started_at, second.ended_at) == ("n1", 4.0, None)


def test_the_ends_that_wrappers_recorded_count_where_no_conductor_did():
    over = {"role": "a", "k": 0, "state": "ended", "code": 143, "signal": 15, "restarts": 0, "ended_at": 9.0}
    over |= {"lost": "its step was killed", "error_file": "{}"}
    found = held("started; gone FAILED exit=0:9", "go; a/0; a/1", replicas=[over, {**over, "k": 1}])
    found["events"][3]["restart"] = 1  # so the record of replica 1 is about an earlier run
    first, second, _ = whole_app(found).record.replicas
    assert (first.state, first.exit_code, first.message) == ("failed", 143, "its step was killed")
    assert (first.ended_at, first.structured_error_msg) == (9.0, "{}")
    assert (second.state, second.message, second.ended_at) == ("cancelled", "killed by signal 9", 120.0)


@pytest.mark.parametrize(("end", "state"), [({"code": 143}, "cancelled"), ({"code": 3}, "failed")])
def test_a_replica_that_slurm_ended_for_a_cancelled_app_is_cancelled(end, state):
    over = {"role": "a", "k": 0, "state": "ended", "signal": 0, "restarts": 0, "ended_at": 9.0, **end}
    found = held("started; asked by ada; gone CANCELLED", "go; a/0; a/1", replicas=[over])
    first = whole_app(found).record.replicas[0]
    assert (first.state, first.exit_code) == (state, end["code"])


STOPPING = {
    "e": "stopping", "why": "peer", "by": "a/1", "state": "failed", "message": "a/1 failed", "code": 3,
}  # fmt: skip


@pytest.mark.parametrize(("events", "more", "state"), [
    ("go; a/0; a/1; b/0", [STOPPING], "failed 3: a/1 failed"),
    ("go; a/0; a/1; b/0; a/0=3; a/1=0", [], "failed 137: killed by signal 9"),  # it restarts
    ("go; a/0; a/1; b/0; a/0=0; a/1=0; b/0=0", [], "succeeded 0:"),
    ("go; a/0; a/1; b/0", [], "failed 137: killed by signal 9"),
])  # fmt: skip
def test_an_end_that_follows_from_the_events_of_a_dead_conductor_counts(events, more, state):
    found = held("started; gone FAILED exit=0:9", events)
    assert shown({**found, "events": [*found["events"], *more]}) == state


def test_the_outcome_has_the_replicas_of_an_app_that_has_ended():
    kept = {"role": "a", "k": 0, "state": "failed", "message": "no GPU", "code": 1, "host": "n1"}
    kept |= {"restarts": 2, "started_at": 3.5, "ended_at": 4.0, "error_file": "{}"}
    found = held("started", "go; a/0", outcome={**json.loads(OUTCOME), "replicas": [kept]})
    (each,) = whole_app(found).record.replicas
    assert (each.state, each.message, each.exit_code, each.host) == ("failed", "no GPU", 1, "n1")
    assert (each.num_restarts, each.started_at, each.ended_at) == (2, 3.5, 4.0)
    assert each.structured_error_msg == "{}"


def test_accounting_has_the_use_of_a_role_whose_wrapper_was_killed():
    steps = {"a": [2, 20.0, 30.0, 10.0, 4096], "b": [1, 10.0, 0.0, 0.0, 0]}
    found = of("started; gone NODE_FAIL")
    found["ended"]["steps"] = steps
    assert {role: used.to_json() for role, used in seen_app(found).record.used.items()} == {
        "a": Use((30.0, 10.0, 4096, ACCOUNTING), 20.0, 2).to_json()
    }
    exits = [{"e": "exit", "role": "a", "k": k, "code": 0, "use": [1.0, 0.0, 0, ""]} for k in range(2)]
    measured = {**found, "events": [{"e": "created", "roles": [["a", 2], ["b", 1]]}, *exits]}
    use = seen_app(measured).record.used["a"]
    assert (use.cpu_s, use.source) == (2.0, "")
