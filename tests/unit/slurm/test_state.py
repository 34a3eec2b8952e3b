"""The state of an app from the facts that the agent gathers."""

import time

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

PREPARE = StoodOn("prepare", 1, 1, "prepare-1-x", "slurm")
ATTEMPT = Attempt(
    key=JobKey("p", "default", "train"),
    number=2,
    app_id="train-2-x",
    scheduler="slurm",
    digest="d",
    document={"roles": [{"name": "a", "num_replicas": 2}, {"name": "b"}]},
    needs=(PREPARE,),
    created_at=1.5,
)
NOWHERE = {"host": "elsewhere", "boot": "b", "pid": 1, "start": 1, "user": "u", "home": "/h", "nonce": "n"}


def here(**changes):
    made = owner.this_process()
    fields = {name: getattr(made, name) for name in ("host", "boot", "pid", "start", "user", "home")}
    return {**fields, "nonce": "n", "at": time.time(), **changes}


def facts(**fields):
    empty = dict.fromkeys(("owner", "created", "job", "submitted", "started", "cancel", "outcome", "ended"))
    return {
        "attempt": ATTEMPT.to_json(),
        "folder": "/j/apps/train-2-x",
        **empty,
        "queue": [],
        "needs": {},
        "vanished": False,
        **fields,
    }


def submitted(**fields):
    return facts(**{"created": 1.0, "job": "12", "submitted": 2.0, **fields})


def row(state="PENDING", reason="Priority", **fields):
    return {"job": "12", "state": state, "reason": reason, "submitted_at": 1.0, "start_at": None, **fields}


def seen(found, **how):
    record = seen_app(found, **how).record
    return record.state, record.message


def test_a_submission_is_reserved_and_then_created_while_its_client_lives():
    assert seen(facts(owner=here())) == ("reserved", "")
    assert seen(facts(owner=here(), created=1.0)) == ("created", "")
    assert seen_app(facts(owner=here())).owner == str(owner.this_process())


@pytest.mark.parametrize("ahead_s", [-7200, 0, 7200])
def test_a_client_elsewhere_is_judged_by_its_last_act_and_not_by_its_clock(ahead_s):
    client = {**NOWHERE, "at": time.time() + ahead_s}
    assert seen_app(facts(owner={**client, "quiet_s": 5.0})).owner == "pid 1 on elsewhere"
    assert seen_app(facts(owner={**client, "quiet_s": owner.PATIENCE_S + 1})).owner == ""


@pytest.mark.parametrize("created", [None, 1.0])
def test_without_a_living_client_a_submission_is_unfinished(created):
    for client in (None, here(pid=1 << 30)):
        app = seen_app(facts(owner=client, created=created))
        assert (app.record.state, app.owner) == ("reserved", "")


def test_a_client_on_another_machine_counts_as_dead_after_ten_silent_minutes_or_when_the_user_says_so():
    found = facts(owner={**NOWHERE, "at": 1000.0})
    assert seen_app(found, now=1500.0).owner == "pid 1 on elsewhere"
    assert seen_app(found, now=1700.0).owner == ""
    assert seen_app(found, now=1500.0, take_over=True).owner == ""


HAS_NODES = ("RUNNING", "COMPLETING", "CONFIGURING")
WAITS = "waits in Slurm's queue"
HELD = "`scontrol release 12` lets it start"
RAN = {"job": "12", "at": 3.0}
TWO_NEEDS = {"prepare-1-x": "", "other-1-x": "succeeded"}
NAMED = [["Data_set.v2", 3, 3, "vision-3-odx2y", "slurm"]]


@pytest.mark.parametrize(
    ("found", "state", "message"),
    [
        (submitted(queue=[row()]), "queued", f"{WAITS}: Priority"),
        (submitted(queue=[row(reason="None")]), "queued", WAITS),
        *(
            (
                submitted(queue=[row(reason=each, held=True, start_at=1e9)]),
                "queued",
                f"{WAITS}{why}; {HELD}",
            )
            for each, why in [
                ("JobHeldUser", ": JobHeldUser"),
                ("JobHeldAdmin", ": JobHeldAdmin"),
                ("Reservation brief was deleted", ": Reservation brief was deleted"),
                ("None", ""),
            ]
        ),
        (submitted(queue=[row(reason="Dependency")], needs=TWO_NEEDS), "waiting", "waits for prepare"),
        (
            submitted(
                attempt={**ATTEMPT.to_json(), "needs": NAMED},
                needs={"vision-3-odx2y": "", "prepare-1-x": ""},
            ),
            "waiting",
            "waits for Data_set.v2, prepare",
        ),
        (
            submitted(queue=[row(reason="BeginTime")], started=RAN),
            "queued",
            f"Slurm runs it again: {WAITS}: BeginTime",
        ),
        # a controller that was killed comes back with its state of some seconds before
        (submitted(queue=[row(reason="JobHeldUser")], started=RAN, vanished=True), "lost", RUN_AGAIN),
        # one empty answer of squeue ends nothing
        (submitted(), "queued", WAITS),
        (submitted(started=RAN), "running", ""),
        (submitted(needs={"prepare-1-x": ""}), "waiting", "waits for prepare"),
        *((submitted(queue=[row(state)], started=RAN), "running", "") for state in HAS_NODES),
        (submitted(queue=[row("SUSPENDED")]), "running", "suspended in Slurm"),
        (
            submitted(started=RAN, queue=[row("SUSPENDED", held=True)]),
            "running",
            "suspended in Slurm; `scontrol resume 12` lets it go on",
        ),
        (
            submitted(vanished=True, ended={"state": "FAILED", "exit": "28:0"}),
            "failed",
            "there was no room in /j/apps/train-2-x: a full disk, or a quota",
        ),
    ],
)
def test_the_state_of_an_app_and_its_message_follow_from_its_files_and_its_rows(found, state, message):
    assert seen(found) == (state, message)
    app = seen_app(found)
    assert app.owner == ("Slurm job 12" if state in ("queued", "waiting") else "")
    assert app.record.started_at == (3.0 if state in ("running", "lost") and found["started"] else None)


def test_the_outcome_on_record_counts_whatever_slurm_says():
    outcome = {"state": "failed", "message": "a/0 exited with 3", "exit_code": 3, "started_at": 3.0}
    outcome |= {"ended_at": 4.0, "restarts": 2, "replicas": []}
    found = submitted(outcome=outcome, queue=[row("RUNNING")], vanished=True)
    record = seen_app(found).record
    assert (record.state, record.message, record.exit_code) == ("failed", "a/0 exited with 3", 3)
    assert (record.started_at, record.ended_at, record.num_restarts) == (3.0, 4.0, 2)
    assert not is_new_end(found)


def ended(state, **fields):
    made = {"state": state, "exit": "0:0", "reason": "None", "start": 60.0, "end": 120.0, "nodes": "n3"}
    found = submitted(started={"job": "12", "at": 61.0}, vanished=True, ended={**made, **fields})
    (outcome,) = new_ends({"train-2-x": found}).values()
    assert is_new_end(found)
    return outcome["state"], outcome["message"], outcome["exit_code"]


@pytest.mark.parametrize(
    ("state", "fields", "found"),
    [
        ("TIMEOUT", {}, ("failed", "timed out after 1 min", None)),
        ("TIMEOUT", {"end": 7261.0}, ("failed", "timed out after 2 h", None)),
        ("TIMEOUT", {"start": None}, ("failed", "timed out", None)),
        ("DEADLINE", {"end": 90.0}, ("failed", "timed out after 30 s", None)),
        ("NODE_FAIL", {}, ("failed", "node n3 failed", None)),
        ("NODE_FAIL", {"nodes": "n[1-3]"}, ("failed", "one of its nodes failed: n[1-3]", None)),
        ("NODE_FAIL", {"nodes": ""}, ("failed", "a node failed", None)),
        ("OUT_OF_MEMORY", {}, ("failed", "killed: out of memory", 137)),
        ("PREEMPTED", {}, ("failed", "was preempted", None)),
        ("CANCELLED", {}, ("cancelled", "cancelled in Slurm", None)),
        ("CANCELLED by 1000", {}, ("cancelled", "cancelled in Slurm", None)),
        ("FAILED", {"exit": "0:9"}, ("failed", "killed by signal 9", 137)),
        ("FAILED", {"exit": "3:0"}, ("failed", "its batch script exited with 3", 3)),
        (
            "FAILED",
            {"reason": "NonZeroExitCode"},
            ("failed", "Slurm could not run it: NonZeroExitCode", None),
        ),
        ("BOOT_FAIL", {}, ("failed", "failed in Slurm", None)),
        ("BOOT_FAIL", {"reason": ""}, ("failed", "failed in Slurm", None)),
        ("FAILED", {"exit": ""}, ("failed", "failed in Slurm", None)),
        (
            "FAILED",
            {"exit": "0:53", "reason": "JobLaunchFailure"},
            (
                "failed",
                "the node cannot open /j/apps/train-2-x/slurm.out: is its disk full, or is it not shared?",
                None,
            ),
        ),
        ("FAILED", {"exit": "28:0"}, ("failed", "its batch script exited with 28", 28)),
        ("CANCELLED+", {}, ("cancelled", "cancelled in Slurm", None)),
        ("TIMEOUT", {"end": 119.0}, ("failed", "timed out after 59 s", None)),
        ("TIMEOUT", {"end": 5460.0}, ("failed", "timed out after 90 min", None)),
        ("TIMEOUT", {"end": 3660.0}, ("failed", "timed out after 1 h", None)),
        ("TIMEOUT", {"end": None}, ("failed", "timed out", None)),
        ("NODE_FAIL", {"nodes": "n1,n2"}, ("failed", "one of its nodes failed: n1,n2", None)),
        (
            "COMPLETED",
            {},
            ("lost", "it left Slurm's queue without an outcome; Slurm knows it as COMPLETED", None),
        ),
        ("", {}, ("lost", "it left Slurm's queue without an outcome", None)),
    ],
)
def test_the_end_of_an_app_without_an_outcome_follows_from_the_state_of_its_job(state, fields, found):
    assert ended(state, **fields) == found


def behind(need, *, state="", app_id="train-2-x"):
    attempt = {
        **ATTEMPT.to_json(),
        "app_id": app_id,
        "needs": [[need.partition("-")[0], 1, 1, need, "slurm"]],
    }
    gone = {"vanished": True, "ended": {"state": "CANCELLED"}}
    return submitted(attempt=attempt, needs={need: state}, **gone)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("failed", "prepare failed"),
        ("cancelled", "prepare was cancelled"),
        ("skipped", "prepare was skipped"),
        ("lost", "prepare was lost"),
        ("removed", "prepare was removed"),
    ],
)
def test_an_app_that_slurm_cancelled_because_of_a_need_is_skipped(state, message):
    (outcome,) = new_ends({"x": behind("prepare-1-x", state=state)}).values()
    assert (outcome["state"], outcome["message"]) == ("skipped", message)


def test_a_chain_that_slurm_cancelled_is_skipped_to_its_end():
    apps = {
        "evaluate-1-x": behind("train-2-x", app_id="evaluate-1-x"),
        "train-2-x": behind("prepare-1-x"),
        "prepare-1-x": submitted(outcome={"state": "failed"}),
    }
    apps["train-2-x"]["needs"] = {"prepare-1-x": "failed"}
    found = new_ends(apps)
    assert {app_id: (each["state"], each["message"]) for app_id, each in found.items()} == {
        "train-2-x": ("skipped", "prepare failed"),
        "evaluate-1-x": ("skipped", "train was skipped"),
    }


def test_a_need_whose_end_is_not_known_is_to_be_looked_up_first():
    alone = {"evaluate-1-x": behind("train-2-x", app_id="evaluate-1-x")}
    assert undecided_needs(alone) == ["train-2-x"]
    assert undecided_needs({**alone, "train-2-x": {}}) == []
    assert undecided_needs({"train-2-x": behind("prepare-1-x", state="failed")}) == []


def test_a_job_is_skipped_that_slurm_has_cancelled_before_it_shows_the_end_of_its_need():
    never = {"state": "CANCELLED", "reason": "DependencyNeverSatisfied"}
    need = submitted(queue=[row(state="COMPLETING")])
    apps = {"train-2-x": {**behind("prepare-1-x"), "ended": never}, "prepare-1-x": need}
    assert {each: end["state"] for each, end in new_ends(apps).items()} == {"train-2-x": "skipped"}
    apps["train-2-x"]["ended"] = {**never, "reason": "Dependency"}
    assert {each: end["state"] for each, end in new_ends(apps).items()} == {"train-2-x": "cancelled"}


def test_needs_in_a_circle_come_to_an_end():
    apps = {"a-1-x": behind("b-1-x", app_id="a-1-x"), "b-1-x": behind("a-1-x", app_id="b-1-x")}
    assert sorted(new_ends(apps)) == ["a-1-x", "b-1-x"]


def test_an_attempt_comes_back_as_it_was_reserved_with_its_present_state():
    found = submitted(queue=[row("RUNNING")], started={"job": "12", "at": 3.0})
    attempt = seen_app(found).attempt()
    assert (attempt.key, attempt.number, attempt.needs) == (ATTEMPT.key, 2, (PREPARE,))
    assert (attempt.state, attempt.started_at, attempt.owner) == ("running", 3.0, "")
    record = seen_app(found).record
    assert (record.handle, record.name, record.number) == ("slurm://p/train-2-x", "train", 2)


def test_an_app_without_a_job_is_no_attempt():
    attempt = {"key": None, "name": "sim", "session": "s", "app_id": "sim-1", "created_at": 1.0}
    found = submitted(attempt=attempt)
    assert seen_app(found).attempt() is None
    record = seen_app(found).record
    assert (record.handle, record.name, record.job) == ("slurm://s/sim-1", "sim", None)


def test_only_a_submitted_job_that_slurm_has_is_on_hold():
    assert is_held(submitted(queue=[row(held=True)]))
    assert not is_held(submitted())
    assert not is_held(submitted(queue=[row(held=False)]))
    assert not is_held(facts(created=1.0, queue=[row(held=True)]))


@pytest.mark.parametrize(
    ("fields", "state", "message"),
    [
        ({}, "lost", LEFT_UNSTARTED),
        ({"started": RAN}, "lost", LEFT),
        ({"cancel": {"message": "cancelled by ada@laptop"}}, "cancelled", "cancelled by ada@laptop"),
        # Slurm killed it, as it was asked to end
        (
            {"started": RAN, "cancel": {"message": "cancelled by ada"}, "ended": {"state": "FAILED"}},
            "cancelled",
            "cancelled by ada",
        ),
        ({"started": {"cancelled": True, "message": "cancelled by ada"}}, "cancelled", "cancelled by ada"),
        ({"started": {"cancelled": True}}, "cancelled", "cancelled"),
        ({"started": {"withdrawn": True}}, "skipped", "withdrawn"),
        ({"ended": {"state": "CANCELLED"}}, "cancelled", "cancelled in Slurm"),
        ({"needs": {"prepare-1-x": "failed"}}, "skipped", "prepare failed"),
        # It ran, so that it was not for its need that it ended.
        ({"needs": {"prepare-1-x": "failed"}, "started": RAN}, "lost", LEFT),
        ({"needs": {"prepare-1-x": "succeeded", "x-1-y": ""}}, "lost", LEFT_UNSTARTED),
        (
            {"needs": {"prepare-1-x": "failed", "data-1-y": "lost"}},
            "skipped",
            "prepare failed, data was lost",
        ),
    ],
)
def test_an_app_whose_job_slurm_has_forgotten_has_the_end_on_record_or_is_lost(fields, state, message):
    """Slurm purges a job soon after its end: the record says more."""
    assert seen(submitted(vanished=True, **fields)) == (state, message)


def gone(state, **fields):
    """Return a job that has left the queue."""
    return {"vanished": True, "ended": {"state": state, "end": 99.0, **fields}}


STARTED = {"job": "12", "at": 61.0}
OUTCOME = {"state": "succeeded", "started_at": 3.0, "ended_at": 4.0, "exit_code": 0, "restarts": 2}


@pytest.mark.parametrize(
    ("fields", "started_at", "ended_at", "restarts", "exit_code"),
    [
        ({"queue": [row()]}, None, None, 0, None),
        ({"queue": [row("RUNNING")]}, None, None, 0, None),  # its script has not run yet
        ({"queue": [row("RUNNING")], "started": STARTED}, 61.0, None, 0, None),
        ({"queue": [row()], "started": STARTED}, None, None, 0, None),  # requeued
        ({"started": STARTED}, 61.0, None, 0, None),  # one empty queue is no end
        ({"started": STARTED, "outcome": OUTCOME}, 3.0, 4.0, 2, 0),
        ({"outcome": {"state": "skipped", "ended_at": 4.0}}, None, 4.0, 0, None),
        ({"started": STARTED, **gone("FAILED", exit="3:0")}, 61.0, 99.0, 0, 3),
        ({"started": STARTED, **gone("FAILED", exit="0:9")}, 61.0, 99.0, 0, 137),
        ({"started": STARTED, "vanished": True}, 61.0, None, 0, None),
        (gone("CANCELLED"), None, 99.0, 0, None),
        ({"started": {"cancelled": True, "at": 5.0}}, None, 5.0, 0, None),
        ({"started": {"withdrawn": True, "at": 5.0}}, None, 5.0, 0, None),
    ],
)
def test_the_view_of_an_app_has_its_start_end_restarts_and_exit_code(
    fields, started_at, ended_at, restarts, exit_code
):
    found = submitted(**fields)
    record = seen_app(found).record
    assert (record.started_at, record.ended_at) == (started_at, ended_at)
    assert (record.num_restarts, record.exit_code) == (restarts, exit_code)
    attempt = seen_app(found).attempt()
    assert (attempt.started_at, attempt.ended_at, attempt.exit_code) == (started_at, ended_at, exit_code)


@pytest.mark.parametrize(("days", "form"), [(0, "%H:%M"), (2, "%Y-%m-%d %H:%M")])
def test_an_expected_start_has_a_date_unless_that_is_today(days, form):
    at = time.time() + days * 86400
    why = f"waits in Slurm's queue: Priority; starts about {time.strftime(form, time.localtime(at))}"
    assert seen(submitted(queue=[row(start_at=at)])) == ("queued", why)


# Replicas

CREATED = {"e": "created", "roles": [["a", 2], ["b", 1]], "retries": [[1, "REPLICA"]] * 2}
NAMES = [("a", 0), ("a", 1), ("b", 0)]
BEHIND = {**CREATED, "order": [["b", False, [["a", "ready"]]]]}


def at(second, kind, k=0, role="a", **fields):
    return {"e": kind, "role": role, "k": k, "t": int(second * 1e9), **fields}


def held(*events, created=CREATED, **fields):
    """Return a running app with these events on its record."""
    start = [{"t": 1, **created}, {"e": "starting", "t": int(2e9)}]
    return submitted(**{"queue": [row("RUNNING")], "started": STARTED, "events": [*start, *events], **fields})


def shown(found):
    record = whole_app(found).record
    return [(each.role, each.k, each.state, each.exit_code, each.message) for each in record.replicas]


def test_replicas_of_a_live_app_have_the_state_that_its_events_say():
    found = held(
        at(3, "spawn", host="n1"),
        at(3, "spawn", 1, host="n2"),
        at(4, "exit", 1, code=137, signal=9, host="n2"),
        at(4, "restart", 1, scope="replica", n=1),
        at(5, "spawn", 1, host="n2", restart=1),
        at(6, "exit", code=3),
    )
    assert shown(found) == [
        ("a", 0, "failed", 3, ""),
        ("a", 1, "running", None, ""),
        ("b", 0, "pending", None, ""),
    ]
    record = whole_app(found).record
    first, second, _ = record.replicas
    assert (record.num_restarts, first.num_restarts, second.num_restarts) == (1, 0, 1)
    assert (first.host, first.started_at, first.ended_at) == ("n1", 3.0, 6.0)
    assert (second.host, second.started_at, second.ended_at) == ("n2", 5.0, None)


def test_replicas_of_an_app_that_has_not_started_are_pending():
    found = shown(submitted(queue=[row()]))
    assert found == [(*name, "pending", None, "") for name in NAMES]


def test_replicas_of_an_app_that_never_started_and_has_gone_are_cancelled_or_lost():
    assert {each[2] for each in shown(submitted(vanished=True))} == {"lost"}
    assert {each[2] for each in shown(submitted(started={"cancelled": True}))} == {"cancelled"}


def test_a_role_that_waits_for_others_says_for_which():
    events = [at(3, "spawn"), at(3, "spawn", 1), at(4, "ready")]
    assert shown(held(*events, created=BEHIND))[2] == ("b", 0, "pending", None, "waiting for a (ready)")
    assert shown(held(*events, at(4, "ready", 1), created=BEHIND))[2] == ("b", 0, "pending", None, "")


def test_replicas_of_an_app_that_slurm_is_to_run_again_are_pending():
    found = held(at(3, "spawn"), at(3, "spawn", 1), queue=[row()])
    assert {each[2:] for each in shown(found)} == {("pending", None, "")}


def test_the_ends_that_wrappers_recorded_count_where_no_conductor_did():
    over = {"role": "a", "k": 0, "state": "ended", "code": 143, "signal": 15, "restarts": 0, "ended_at": 9.0}
    over |= {"lost": "its step was killed", "error_file": "{}"}
    early = {**over, "k": 1}
    events = [at(3, "spawn"), at(3, "spawn", 1, restart=1)]
    found = held(*events, replicas=[over, early], **{**gone("FAILED", exit="0:9"), "queue": []})
    record = whole_app(found).record
    assert shown(found)[:2] == [
        ("a", 0, "failed", 143, "its step was killed"),
        ("a", 1, "cancelled", None, "killed by signal 9"),  # what was recorded was an earlier run
    ]
    assert (record.replicas[0].ended_at, record.replicas[0].structured_error_msg) == (9.0, "{}")
    assert record.replicas[1].ended_at == 99.0


STOPPING = {
    "e": "stopping",
    "why": "peer",
    "by": "a/1",
    "state": "failed",
    "message": "a/1 failed",
    "code": 3,
}


@pytest.mark.parametrize(
    ("events", "state", "message", "code"),
    [
        ([STOPPING], "failed", "a/1 failed", 3),
        (
            [at(4, "exit", code=3), at(4, "exit", 1, code=0)],
            "failed",
            "killed by signal 9",
            137,
        ),  # it restarts
        ([at(4, "exit", k, name, code=0) for name, k in NAMES], "succeeded", "", 0),
        ([], "failed", "killed by signal 9", 137),
    ],
)
def test_an_end_that_follows_from_the_events_of_a_dead_conductor_counts(events, state, message, code):
    found = held(at(3, "spawn"), at(3, "spawn", 1), at(3, "spawn", role="b"), *events)
    found |= {**gone("FAILED", exit="0:9"), "queue": []}
    assert seen(found) == (state, message)
    (outcome,) = new_ends({"x": found}).values()
    assert (outcome["state"], outcome["exit_code"]) == (state, code)


def test_the_outcome_has_the_replicas_of_an_app_that_has_ended():
    kept = {"role": "a", "k": 0, "state": "failed", "message": "no GPU", "code": 1, "host": "n1"}
    kept |= {"restarts": 2, "started_at": 3.5, "ended_at": 4.0, "error_file": "{}"}
    found = held(at(3, "spawn"), outcome={**OUTCOME, "replicas": [kept]})
    (each,) = whole_app(found).record.replicas
    assert (each.state, each.message, each.exit_code, each.host) == ("failed", "no GPU", 1, "n1")
    assert (each.num_restarts, each.started_at, each.ended_at) == (2, 3.5, 4.0)
    assert each.structured_error_msg == "{}"


def test_accounting_has_the_use_of_a_role_whose_wrapper_was_killed():
    steps = {"a": [2, 20.0, 30.0, 10.0, 4096], "b": [1, 10.0, 0.0, 0.0, 0]}
    ended = {"state": "NODE_FAIL", "exit": "", "reason": "", "nodes": "n1", "end": 9.0, "steps": steps}
    found = submitted(started={"job": "12", "at": 3.0}, vanished=True, ended=ended)
    assert {role: used.to_json() for role, used in seen_app(found).record.used.items()} == {
        "a": Use((30.0, 10.0, 4096, ACCOUNTING), 20.0, 2).to_json()
    }
    exits = [{"e": "exit", "role": "a", "k": k, "code": 0, "use": [1.0, 0.0, 0, ""]} for k in range(2)]
    measured = {**found, "events": [{"e": "created", "roles": [["a", 2], ["b", 1]]}, *exits]}
    use = seen_app(measured).record.used["a"]
    assert (use.cpu_s, use.source) == (2.0, "")
