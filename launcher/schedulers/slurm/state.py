"""Derive the state of apps from the facts that the agent gathers on the cluster. Pure.

The facts of one app are a JSON object: the files of its folder, its rows in the queue and, once it has left
the queue, its end as Slurm reports it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from launcher.holding import use
from launcher.holding.events import WITHDRAWN, ended as ended_event, skipped, waits_for_jobs
from launcher.holding.hold import implied_end
from launcher.holding.state import AppState
from launcher.holding.use import Use
from launcher.schedulers import owner as owners
from launcher.schedulers.record import SeenApp, row_of
from launcher.schedulers.slurm.known import SLURM
from launcher.schedulers.slurm.site.shared import NO_ROOM, OUTPUT, RUN_AGAIN, recorded_exit, row, timed_out
from launcher.state.records import PENDING, AppRecord, ReplicaRecord
from launcher.text import path_names

Facts = Mapping[str, Any]
Outcome = Mapping[str, Any]
"""The content of the file `outcome` of an app."""

_RUNNING = frozenset(
    ["RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STAGE_OUT", "SIGNALING", "STOPPED", "RESIZING"]
)
_PROLOG = "Error running slurm prolog"
"""The words of Slurm in the output of a job whose prolog fails, and which it then cancels."""
_NO_OUTPUT_FILE = "0:53"
"""The exit code of a job whose node cannot open the file for its output."""
_FAILURES = {
    "DEADLINE": "Slurm could not end it by its deadline",  # a pending job: Slurm lets a running one go on
    "PREEMPTED": "was preempted",
}
_TERMED = 143
"""The exit code of a program that SIGTERM has ended."""
LEFT = "it left Slurm's queue without an outcome"
LEFT_UNSTARTED = f"{LEFT} before it started: it was cancelled in Slurm, or the controller lost it"


def seen_app(facts: Facts, *, take_over: bool = False, now: float | None = None) -> SeenApp:
    """The app in its present state, without replicas; its owner is its client, or the job that holds it.

    Args:
        take_over: a client on another machine that submits the app counts as dead.
        now: epoch seconds, to judge the silence of such a client.
    """
    recorded, started = facts.get("attempt") or {}, facts.get("started") or {}
    record = row_of(SLURM, str(recorded.get("app_id") or ""), recorded)
    record.logs_removed = has_no_logs(facts)
    owner = ""
    if facts.get("outcome"):
        _end(record, facts["outcome"])
    elif is_new_end(facts):
        _end(record, _derived(facts))
    elif not facts.get("submitted") and not started:
        client = alive_owner(facts, take_over=take_over, now=now)
        record.state = "created" if facts.get("created") and client else "reserved"
        owner = str(client) if client else ""
    else:
        record.state, record.message = _in_queue(facts)
        if why := facts.get("unanswered"):  # then the state is that of its files
            record.message = f"last known state: {why}"
        record.started_at = started.get("at")  # also of an app that Slurm has queued again
        if record.state != "running":
            owner = f"Slurm job {facts.get('job') or ''}".rstrip()
    return SeenApp(record, recorded, owner)


def state_of(facts: Facts) -> str:
    """The present state of an app."""
    return seen_app(facts).record.state


def is_left_behind(app: SeenApp) -> bool:
    """Whether the client that submitted the app died before it had finished the submission."""
    return app.record.state in PENDING and not app.owner


def is_new_end(facts: Facts) -> bool:
    """Whether the app has ended, and no file on the cluster records that yet: see `new_ends`."""
    if facts.get("outcome"):
        return False
    was_submitted = facts.get("submitted") or facts.get("started")
    return _is_given_up(facts) or bool(facts.get("vanished") and was_submitted)


def _is_given_up(facts: Facts) -> bool:
    """Whether a client has ended the app before it started."""
    return not (facts.get("started") or {}).keys().isdisjoint(("withdrawn", "cancelled"))


def new_ends(apps: Mapping[str, Facts]) -> dict[str, Outcome]:
    """The outcomes of apps that have ended and lack one; outcomes of needs decide others."""
    left = {app_id: facts for app_id, facts in apps.items() if is_new_end(facts)}
    found: dict[str, Outcome] = {}
    while left:
        decided = [each for each, facts in left.items() if left.keys().isdisjoint(facts.get("needs") or ())]
        for app_id in decided or list(left):  # a damaged record may have a cycle of needs
            facts = left.pop(app_id)
            needs = facts.get("needs") or {}
            ends = {need: found[need]["state"] if need in found else state for need, state in needs.items()}
            found[app_id] = _derived({**facts, "needs": ends})
    return found


def with_ends(apps: Mapping[str, Facts]) -> list[Facts]:
    """The facts, with outcomes for apps that have ended without one. Records nothing."""
    ends = new_ends(apps)
    return [{**facts, "outcome": ends[app_id]} if app_id in ends else facts for app_id, facts in apps.items()]


def undecided_needs(apps: Mapping[str, Facts]) -> list[str]:
    """The apps whose facts `new_ends` lacks."""
    ended = (facts for facts in apps.values() if is_new_end(facts) and not _is_given_up(facts))
    needs = (app_id for facts in ended for app_id, state in (facts.get("needs") or {}).items() if not state)
    return sorted({app_id for app_id in needs if app_id not in apps})


def alive_owner(facts: Facts, *, take_over: bool = False, now: float | None = None) -> owners.Owner | None:
    """The living client that submits the app; None for none. Its clock may differ from ours by hours."""
    about = facts.get("owner") or {}
    made, quiet_s, now = owners.of(about), about.get("quiet_s"), time.time() if now is None else now
    at = about.get("at") if quiet_s is None else now - quiet_s
    return made if made and made.is_alive(at, take_over=take_over, now=now) else None


# States


def _end(record: AppRecord, outcome: Outcome) -> None:
    """Set the end of an app."""
    record.state, record.message = str(outcome.get("state") or "lost"), str(outcome.get("message") or "")
    record.exit_code, record.num_restarts = outcome.get("exit_code"), int(outcome.get("restarts") or 0)
    record.started_at, record.ended_at = outcome.get("started_at"), outcome.get("ended_at")
    record.used = use.from_json(outcome.get("used"))
    record.output_digest = str(outcome.get("output_digest") or "")


def _in_queue(facts: Facts) -> tuple[str, str]:
    """State and message of an app with a job in the queue."""
    rows = facts.get("queue") or []
    if is_suspended(facts):  # Slurm resumes it, unless a person has suspended it: its priority is 0
        held = [f"; `scontrol resume {row['job']}` lets it go on" for row in rows if row.get("held")]
        return "running", "".join(["suspended in Slurm", *held[:1]])
    if any(row["state"] in _RUNNING for row in rows) or (facts.get("started") and not rows):
        return "running", ""
    why = why_pending(rows[0] if rows else {})
    if facts.get("started"):
        return "queued", f"Slurm runs it again: {why}"
    if jobs := [job for job, state in _needs(facts) if not state]:
        return "waiting", waits_for_jobs(jobs)
    return "queued", why


def is_suspended(facts: Facts) -> bool:
    """Whether Slurm has stopped the processes of the app's job, to let them go on later."""
    return any(row["state"] == "SUSPENDED" for row in facts.get("queue") or ())


def is_held(facts: Facts) -> bool:
    """Whether Slurm holds the job of an app that was released."""
    rows = facts.get("queue") or []
    return bool(facts.get("submitted") and rows) and all(row.get("held") for row in rows)


def is_behind_ended(facts: Facts) -> bool:
    """Whether Slurm has the job of an app wait for apps that have all ended."""
    needs, rows = facts.get("needs") or {}, facts.get("queue") or []
    return bool(needs) and all(needs.values()) and any(row.get("dependency") for row in rows)


def is_removed(facts: Facts) -> bool:
    """Whether only the record and the outcome of an app are left."""
    return "removed" in (facts.get("outcome") or {})


def has_no_logs(facts: Facts) -> bool:
    """Whether the logs of an app were removed, alone or with other files."""
    return not (facts.get("outcome") or {}).keys().isdisjoint(("removed", "logs_removed"))


def why_pending(row: Mapping[str, Any]) -> str:
    """Say why a job is pending: `waits in Slurm's queue: Priority; starts about 14:02`."""
    reason = row.get("reason") or ""
    text = "waits in Slurm's queue" + (f": {reason}" if reason and reason != "None" else "")
    if reason == "JobHeldAdmin":
        return f"{text}; an administrator has to release it"
    if row.get("held"):
        return f"{text}; `scontrol release {row['job']}` lets it start"
    start = row.get("start_at")
    return f"{text}; starts about {_clock(start)}" if start else text


def _clock(at: float) -> str:
    """Return a time as local time, with its date unless that is today."""
    when = time.localtime(at)
    same_day = when[:3] == time.localtime()[:3]
    return time.strftime("%H:%M" if same_day else "%Y-%m-%d %H:%M", when)


def _needs(facts: Facts) -> list[tuple[str, str]]:
    """The (job, state of its outcome or "") of each attempt that the app's job needs."""
    names = {str(each[3]): str(each[0]) for each in (facts.get("attempt") or {}).get("needs") or ()}
    needs = facts.get("needs") or {}
    return [(names.get(each, each.rsplit("-", 2)[0]), state or "") for each, state in needs.items()]


# Ends


def _cancelled_by(facts: Facts) -> str:
    return str((facts.get("cancel") or facts.get("started") or {}).get("message") or "cancelled")


def _derived(facts: Facts) -> Outcome:
    """The outcome of an app that has ended, and has recorded no outcome."""
    if _is_given_up(facts):
        started = facts["started"]
        state, message = "cancelled", _cancelled_by(facts)
        if started.get("withdrawn"):
            state, message = "skipped", WITHDRAWN
        return {"state": state, "message": message, "ended_at": started.get("at")}
    ended, app = facts.get("ended") or {}, _recorded(facts)
    state, message, code = _end_by_slurm(facts, ended)
    if (end := implied_end(_events(facts))) is not None:  # its conductor died before it could record the end
        state, message, code = end["state"], end["message"], end["code"]
    return {
        "state": state,
        "message": message,
        "exit_code": code,
        "started_at": (facts.get("started") or {}).get("at"),
        "ended_at": ended.get("end"),
        "restarts": app.num_restarts,
        "used": use.to_json({**app.used, **_accounted(app, ended.get("steps") or {})}),
        "replicas": [],
    }


def _accounted(app: AppState, steps: Mapping[str, Sequence[Any]]) -> dict[str, Use]:
    """The use from accounting, for roles with an unmeasured run, whose wrapper was killed, too."""
    found: dict[str, Use] = {}
    for name, folder in zip(app.roles, path_names(list(app.roles)), strict=True):
        tasks, wall_s, *cpu_s, memory = steps.get(folder, (0, 0.0, 0.0, 0.0, 0))
        if (any(cpu_s) or memory) and any(each.use is None for each in app.roles[name].replicas):
            found[name] = Use((*cpu_s, memory, use.ACCOUNTING if memory else ""), wall_s, tasks)
    return found


def _end_by_slurm(facts: Facts, ended: Mapping[str, Any]) -> tuple[str, str, int | None]:
    state = str(ended.get("state") or "").partition(" ")[0].rstrip("+")
    unmet = skipped(_needs(facts))
    if unmet and not facts.get("started"):
        return "skipped", unmet, None
    if facts.get("needs") and ended.get("reason") == "DependencyNeverSatisfied":
        # The need that has ended badly is COMPLETING.
        return "skipped", "a job that it needs did not succeed", None
    if facts.get("cancel"):
        return "cancelled", _cancelled_by(facts), None
    if facts.get("queue"):
        return "lost", RUN_AGAIN, None
    said = str(facts.get("said") or "")
    if state == "CANCELLED" and said.startswith(_PROLOG) and not facts.get("started"):
        return "failed", f"the prolog failed{_on(ended)}: {said}", None
    if state == "CANCELLED":
        return "cancelled", "cancelled in Slurm", None
    if state == "TIMEOUT":
        start, end = ended.get("start"), ended.get("end")
        took_s = end - start if start and end else 0.0
        # Limits of Slurm are whole minutes, and jobs end a bit later.
        return "failed", timed_out(took_s if took_s < 60 else 60 * round(took_s / 60)), None
    if state == "NODE_FAIL":
        return "failed", _node_failed(str(ended.get("nodes") or "")), None
    if state == "OUT_OF_MEMORY":
        return "failed", "killed: out of memory", 137
    if state in _FAILURES:
        return "failed", _FAILURES[state], None
    if ended.get("exit") == _NO_OUTPUT_FILE:
        path = f"{facts.get('folder')}/{OUTPUT}"
        return "failed", f"the node cannot open {path}: is its disk full, or is it not shared?", None
    if ended.get("exit") == f"{NO_ROOM}:0" and not facts.get("started"):
        return "failed", f"there was no room in {facts.get('folder')}: a full disk, or a quota", None
    if state in ("FAILED", "BOOT_FAIL"):
        return ("failed", *_exit(str(ended.get("exit") or ""), str(ended.get("reason") or ""), said))
    if state == "COMPLETED":
        return "lost", "it left Slurm's queue without an outcome; Slurm knows it as COMPLETED", None
    output = f"; its last output: {said}" if said else ""
    return "lost", (LEFT if facts.get("started") else LEFT_UNSTARTED) + output, None


def _on(ended: Mapping[str, Any]) -> str:
    return f" on node {ended['nodes']}" if ended.get("nodes") else ""


def _node_failed(nodes: str) -> str:
    """The message of a failed node. `nodes`: all nodes of the job: Slurm does not report the failed one."""
    if not nodes:
        return "a node failed"
    return f"one of its nodes failed: {nodes}" if set(nodes) & set(",[") else f"node {nodes} failed"


def _exit(exit_code: str, reason: str, said: str) -> tuple[str, int | None]:
    """Return the message and the exit code for Slurm's `CODE:SIGNAL`. `said`: the last output of the job."""
    code, _, signal = exit_code.partition(":")
    if signal.isdecimal() and signal != "0":
        return f"killed by signal {signal}", 128 + int(signal)
    if code.isdecimal() and code != "0":
        return f"its batch script exited with {code}" + (f": {said}" if said else ""), int(code)
    return f"Slurm could not run it: {reason}" if reason and reason != "None" else "failed in Slurm", None


# Records


def whole_app(facts: Facts, *, take_over: bool = False) -> SeenApp:
    """As `seen_app`, with its replicas, from its outcome or else from its events."""
    seen = seen_app(facts, take_over=take_over)
    record = seen.record
    rows = (facts.get("outcome") or {}).get("replicas")
    if not rows:
        app = _folded(facts, record)
        errors = {(each["role"], each["k"]): each.get("error_file") for each in facts.get("replicas") or ()}
        rows = [
            {**row(app, each), "error_file": errors.get((each.role.name, each.k)) or ""}
            for each in app.replicas
        ]
        record.num_restarts = record.num_restarts or app.num_restarts
    record.replicas = [_replica(each) for each in rows]
    return seen


def _folded(facts: Facts, record: AppRecord) -> AppState:
    """The app, folded from its events, in the state of the record."""
    app = _recorded(facts)
    for found in facts.get("replicas") or ():
        end = recorded_exit(found, app.roles[found["role"]].replicas[found["k"]])
        if end is not None:
            # No conductor has told the TERM of Slurm from a failure.
            is_stopped = record.state == "cancelled" and end["code"] == _TERMED
            app.take({**end, "stopped": True} if is_stopped else end)
    if record.has_ended:
        at = int((record.ended_at or 0.0) * 1e9)
        app.take({**ended_event(record.state, record.message, record.exit_code), "t": at})
    elif record.state != "running" and app.state == "running":  # Slurm has stopped the app, to run it again
        app.take({"e": "requeued"})
    return app


def _recorded(facts: Facts) -> AppState:
    """The app, folded from its events; as it was created, where the facts have no events."""
    app = AppState()
    for event in _events(facts):
        app.take(event)
    return app


def _events(facts: Facts) -> list[dict[str, Any]]:
    """The recorded events of the app; its creation, where the facts have no events."""
    roles = list(Counter(role for role, _ in names_of(facts)).items())
    return facts.get("events") or [{"e": "created", "roles": roles}]


def _replica(found: Mapping[str, Any]) -> ReplicaRecord:
    return ReplicaRecord(
        found["role"],
        found["k"],
        found["state"],
        num_restarts=found["restarts"],
        exit_code=found["code"],
        started_at=found["started_at"],
        ended_at=found["ended_at"],
        host=found["host"],
        message=found["message"],
        structured_error_msg=found["error_file"],
        use=Use.from_json(found["use"]) if found.get("use") else None,
    )


def names_of(facts: Facts) -> list[tuple[str, int]]:
    """(role, number) of every replica."""
    document = (facts.get("attempt") or {}).get("document") or {}
    return [
        (role["name"], k) for role in document.get("roles") or () for k in range(role.get("num_replicas", 1))
    ]
