"""Derive events that an app's containers show and its journal lacks. Pure.

Facts match runs, each a container and its start, and never times: two hosts have two clocks. The journal may
vanish: the labels have the roles, and containers alone show every start and end; the mark in a container's
name shows why launcher stopped it.

The end of a run for which launcher did not ask may be the engine's doing. An engine that stops ends its
containers as `docker stop` does, and with any exit code, though no user asked for it. Its events are gone
when it is back, and no request returns its start time. But it makes its network `bridge` anew at each start
that finds no running container: the engine was restarted since a run began if that network is younger than
the run. An engine with live-restore keeps its containers and the network; it makes only the network anew
where all of its containers ended while it was away.

| on record | engine restarted since the run began | by itself | watched | the run |
|---|---|---|---|---|
| yes | | | | ended as recorded |
| no | no | | | ended by its exit code; was stopped by hand after a deadly `kill` or a `stop` |
| no | yes | yes | | ended by its exit code |
| no | yes | no | yes | is lost: the Docker engine was stopped |
| no | yes | no | no | is lost: ended while nothing watched it |

A program may survive a `kill` and succeed later: only after a `stop` an exit code of 0 is no success.

`By itself`: the run's `die` came without a `kill`, or may have come while an engine with live-restore was
away, which still knows the exit code; a watcher followed the app then, and has recorded no `kill`. Such an
engine, killed just as a run ended, does not know the code, and reports 255: then the run is lost, although
the network stayed. The code of a run that ended under the engine's eyes is what it says, even 255.

`Watched`: a watcher followed the app when the engine went away, or has recorded a `kill` of this run. After a
`kill`, the watcher records no exit before the engine has answered on a new connection: a stopping engine
accepts no connections any more before it ends the first container.

A run that the engine itself restarted goes on: the run before it does not count. So does one that a user
started again, with `docker restart` for example, before the app has ended. A start by a user of a replica
whose role waits is in no order of the app's, which ends. A run that launcher stopped
is judged by the reason of the stop. A container that a killed engine may have started, without knowing of
that when it is back, is lost, too: started now, it might run twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from launcher.holding.events import created, stopping
from launcher.holding.replica import ENDED, RUNNING, Replica
from launcher.schedulers.docker.client.errors import cause_of
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.journal import HeldApp, Journal, restart_by
from launcher.schedulers.docker.labels import Labels, is_by_engine
from launcher.schedulers.docker.names import AT_END, CANCELLED, STOPPED, TIMED_OUT, is_replica, mark_of, where
from launcher.schedulers.logs import Where

Event = dict[str, Any]
EndOf = Callable[[Container], Mapping[str, Any] | None]
"""The fields of the `exit` of a run that launcher did not stop: code, oom, why, lost, hand, said. None for a
container that runs again by now."""

NONE_SEEN: Mapping[str, tuple[float, int | None]] = {}
UNNAMED = ""
"""The name of a role for missing replicas of which only the number is known."""
REMOVED = "its container was removed"
ALL_REMOVED = "its containers were removed"
ENGINE_STOPPED = "the Docker engine was stopped"
UNSEEN = "ended while nothing watched it"
UNKNOWN_CODE = 255
"""The exit code of a container that the engine lists as dead, and of an end that the engine has missed."""


def open_app(
    labels: Labels, containers: Sequence[Container], journal: Journal, expected: Sequence[Where] = ()
) -> HeldApp:
    """The app with all events of the journal. Where the journal does not declare the app, the labels do.

    Args:
        containers: the containers of its replicas.
        expected: every (role, replica) that the app should have, where known.
    """
    present = {where(each) for each in containers if each.state != "removing"}
    if journal.is_declared:
        app = journal.fold()
        known = present | _ended(app)
        app.num_missing = max(0, (labels.expected or len(app.replicas)) - len(known))
        return app
    known = present | _ended(journal.app)
    counts = {role: count for role, count, _ in labels.order}
    missing = (labels.expected or len(expected) or len(journal.app.replicas)) - len(known)
    for role, k in (*(expected if missing > 0 else ()), *_in_order(known, expected)):
        counts[role] = max(counts.get(role, 0), k + 1)
    if (missing > 0 and sum(counts.values()) == len(known)) or not counts:
        counts[UNNAMED] = 1
    app = Journal([declaration(labels, counts), *journal.events]).fold()
    app.num_missing = max(missing, 0)
    return app


def _ended(app: HeldApp) -> set[Where]:
    return {(each.role.name, each.k) for each in app.replicas if each.state == ENDED}


def _in_order(known: Iterable[Where], expected: Iterable[Where]) -> list[Where]:
    """The replicas by number, and their roles as expected."""
    at = {role: number for number, role in enumerate(dict.fromkeys(role for role, _ in expected))}
    return sorted(known, key=lambda each: (at.get(each[0], len(at)), each))


def declaration(labels: Labels, counts: Mapping[str, int]) -> Event:
    """The event that declares the app, without the retries of roles that the engine restarts.

    Args:
        counts: role → number of its replicas.
    """
    retries, rules = labels.retries, {role: rules for role, _, rules in labels.order}
    policies = [retries.get(role, (0, "", 0)) for role in counts]
    probed = [bool(rules.get(role, {}).get("ready")) for role in counts]
    roles = [
        (name, count, 0 if is_by_engine(rule, is_probed=is_probed) else rule[0], rule[1])
        for (name, count), rule, is_probed in zip(counts.items(), policies, probed, strict=True)
    ]
    known = {
        role: {**rules.get(role, {}), "retry_delay": delay_s}
        for role, (_, _, delay_s) in zip(counts, policies, strict=True)
    }
    return {**created(roles, known, labels.timeout_s), "t": round(labels.created_at * 1e9)}


def has_begun(
    containers: Sequence[Container],
    app: HeldApp,
    engine_started_at: float | None = None,
    *,
    is_complete: bool = True,
) -> bool:
    """Whether a replica was started, even one whose container is gone, or may have been; see `was_cut_off`.

    Only replicas that wait for others may be left: the order to start comes after the last creation.

    Args:
        containers: the containers of the replicas.
        app: the app as its journal shows it.
        is_complete: no container is left that reserves or represents the app.
    """
    if any(each.was_started for each in containers):
        return True
    if any(each.state == ENDED and not each.why for each in app.replicas):
        return True
    if any(was_cut_off(each, app, engine_started_at) for each in containers):
        return True
    if app.started_at is None or not (is_complete and containers):
        return False
    labels = Labels(containers[0].labels)
    return bool(labels.order) and len(containers) < labels.expected


def alone(container: Container) -> Mapping[str, Any]:
    """The facts of an end, read from the container alone."""
    code = UNKNOWN_CODE if container.exit_code is None else container.exit_code
    why = cause_of(container.error) if code and container.error else ""
    return {"code": code, "oom": container.oom, "why": why}


def why_lost(
    container: Container,
    app: HeldApp,
    engine_started_at: float | None,
    *,
    watched: bool = False,
    by_itself: bool = False,
) -> str:
    """The reason why an ended, unrecorded run is lost; "" if its exit code, or a stop by hand, explains it.

    Args:
        engine_started_at: None where that is not known; then the engine counts as never restarted.
        by_itself: see the table above.
    """
    # An engine that was killed in the middle of a start may know of its end alone.
    began = container.started_at if container.started_at is not None else container.created_at
    is_restarted = began is not None and engine_started_at is not None and engine_started_at > began
    has_no_code = container.ended_unseen and container.exit_code == UNKNOWN_CODE
    if by_itself or not (is_restarted or has_no_code):
        return ""
    return ENGINE_STOPPED if watched or app.was_killed(container.id, began) else UNSEEN


def was_cut_off(container: Container, app: HeldApp, engine_started_at: float | None) -> bool:
    """Whether a killed engine may have started a container of which it knows no start.

    The order to start is on record, and the engine was restarted since the container was created. Only
    replicas that wait for no others count: the order says nothing of when the others were due.
    """
    if container.was_started or None in (app.started_at, container.created_at, engine_started_at):
        return False
    role, k = where(container)
    is_due = any((each.role.name, each.k) == (role, k) for each in app.to_start if not each.role.depends_on)
    return is_due and restarted_since(container, engine_started_at)


def restarted_since(container: Container, engine_started_at: float | None) -> bool:
    """Whether the engine was restarted since it created a container, and since the last run of it ended."""
    if container.created_at is None or engine_started_at is None:
        return False
    last = max(container.created_at, container.ended_at or 0.0)
    return engine_started_at > (last if container.inspected else last + 1)  # lists have whole seconds


def end_of(container: Container, app: HeldApp, engine_started_at: float | None) -> Mapping[str, Any]:
    """The facts of an unrecorded end, as a watcher would record it now."""
    lost = why_lost(container, app, engine_started_at) if container.inspected else ""
    by_hand = app.was_stopped_by_hand(container.id, container.started_at) and not lost
    return {"code": None, "lost": lost} if lost else {**alone(container), "hand": by_hand}


def containers_to_events(
    app: HeldApp,
    containers: Iterable[Container],
    end_of: EndOf = alone,
    engine_started_at: float | None = None,
    seen_ends: Mapping[str, tuple[float, int | None]] = NONE_SEEN,
) -> Iterator[Event]:
    """The events that the containers of a begun app show and the app lacks. The caller takes them.

    Args:
        containers: the containers of its replicas. Those that do not run should be inspected.
        engine_started_at: see `was_cut_off`; None where it is not known.
        seen_ends: id of a container, which may be gone by now, to the time and exit code of its last end by
            itself, as an event of the engine showed it.
    """
    there = {where(each): each for each in containers if each.state != "removing"}
    if app.started_at is None and not app.has_ended:
        starts = [each.started_at for each in there.values() if each.started_at is not None]
        yield {"e": "starting", "t": _ns(min(starts, default=None))}
    if app.stop is None and not app.has_ended and (stop := _stop_of_marks(there.values())) is not None:
        yield stop
    found: list[Event] = []
    gone: list[Replica] = []
    for replica in app.replicas:
        container = there.get((replica.role.name, replica.k))
        if container is not None and was_cut_off(container, app, engine_started_at):
            run = {"role": replica.role.name, "k": replica.k, "id": container.id, "start": None}
            found.append(
                {"e": "exit", **run, "code": None, "lost": ENGINE_STOPPED, "t": _ns(engine_started_at)}
            )
        elif container is not None:
            found += _of_container(app, replica, container, end_of)
        elif not app.has_ended and (end := _seen_end(replica, seen_ends)) is not None:
            found.append(end)
        elif replica.state != ENDED and not app.has_ended:
            gone.append(replica)
    yield from _of_gone(app, gone)
    yield from sorted(found, key=lambda event: event["t"])
    if app.stop is None and not app.active and _is_stopped(app, there.values()):
        yield stopping("cancel", "cancelled", "cancelled")  # the engine was faster than the stop


def _of_container(app: HeldApp, replica: Replica, container: Container, end_of: EndOf) -> Iterator[Event]:
    if not container.was_started:
        return
    role, k = replica.role.name, replica.k
    run = {"role": role, "k": k, "id": container.id, "start": container.started_at}
    is_new = _is_new(replica, container)
    if is_new:
        at = _ns(container.started_at)
        unknown = container.restarts - app.of_engine.get((role, k), 0)
        for number in range(replica.retries + 1, replica.retries + 1 + unknown):
            yield {**restart_by("engine", role, k, number), "id": container.id, "t": at}
        unasked = app.unasked(replica) if app.may_restart and not _is_of_engine(container) else ""
        if unasked == "restart":
            yield {**restart_by("hand", role, k, replica.retries), "id": container.id, "t": at}
        yield {"e": "spawn", **run, **({"hand": True} if unasked == "early" else {}), "t": at}
    if not container.ended:
        return
    is_late = bool(replica.late) and not is_new
    is_halted = app.is_halted(container.id, container.started_at)
    is_stopped = (is_halted or bool(mark_of(container))) and not is_late
    was_spared = replica.state == ENDED and replica.is_stopped and not is_stopped
    was_stopped = is_stopped and (role, k) in app.nameless_ends
    if is_new or replica.state == RUNNING or was_spared or was_stopped:
        how = {"code": container.exit_code, "stopped": True} if is_stopped else end_of(container)
        if how is None:
            return
        known = {name: value for name, value in how.items() if value or name == "code"}
        yield {"e": "exit", **run, **known, "t": max(_ns(container.ended_at), _ns(container.started_at))}


def _is_of_engine(container: Container) -> bool:
    """Whether the engine restarts the container by itself. It forgets how often when it starts anew."""
    labels = Labels(container.labels)
    rule = labels.retries.get(labels.role, (0, "", 0))
    is_probed = any(role == labels.role and rules.get("ready") for role, _, rules in labels.order)
    return rule[0] > 0 and is_by_engine(rule, is_probed=is_probed)


def _is_new(replica: Replica, container: Container) -> bool:
    """Whether the container shows a later run than the last one that the app knows.

    The reported start of a run may move back a little when the run ends.
    """
    known, start = replica.run
    if known is None and start is None:
        return replica.state != ENDED or container.live
    if known is not None and known != container.id:
        return True
    if start is not None and container.started_at is not None and container.started_at > start:
        return True
    return container.live and (
        replica.state == ENDED or (replica.state != RUNNING and not container.inspected)
    )


def _stop_of_marks(containers: Iterable[Container]) -> Event | None:
    """The stop whose reason the names of containers show."""
    marks = {mark_of(each) for each in containers if not each.live}
    if AT_END in marks:
        return stopping("end", "succeeded", "", code=0)
    if TIMED_OUT in marks:
        return stopping("timeout", "failed", "timed out")
    return stopping("cancel", "cancelled", "cancelled") if CANCELLED in marks else None


def _is_stopped(app: HeldApp, containers: Iterable[Container]) -> bool:
    """Whether marks in the names of containers show a stop that was not caused by a failure."""
    ends = (each for each in app.replicas if each.state == ENDED and not each.is_stopped)
    has_failed = any(each.has_failed or each.code is None for each in ends)
    return not has_failed and any(mark_of(each) == STOPPED for each in containers)


def _seen_end(replica: Replica, seen_ends: Mapping[str, tuple[float, int | None]]) -> Event | None:
    """The end of a replica whose container was removed before it was inspected."""
    container, start = replica.run
    at, code = seen_ends.get(container, (0.0, None))
    if replica.state != RUNNING or code is None or at < (start or 0.0):
        return None
    run = {"role": replica.role.name, "k": replica.k, "id": container, "start": start}
    return {"e": "exit", **run, "code": code, "removed": True, "t": _ns(at)}


def _of_gone(app: HeldApp, gone: Sequence[Replica]) -> Iterator[Event]:
    """The ends of replicas without a container. A replica that an edited request left out has succeeded."""
    named = [each.name for each in gone if each.role.name != UNNAMED]
    why = message_of_gone(named, app.num_missing) or ("" if named else ALL_REMOVED)
    for each in gone:
        at = {"role": each.role.name, "k": each.k}
        if why:
            yield {"e": "exit", **at, "code": None, "lost": why, "removed": True}
        else:
            yield {"e": "spawn", **at}
            yield {"e": "ready", **at}
            yield {"e": "exit", **at, "code": 0, "removed": True}


def message_of_gone(named: Sequence[str], number: int) -> str:
    """The reason why an app with missing containers is lost; "" when none is missing."""
    if number <= 0:
        return ""
    if len(named) == 1:
        return f"{named[0]} was removed by hand"
    if named:
        return f"{', '.join(named[:3])}{', …' if len(named) > 3 else ''} were removed by hand"
    return "1 container was removed by hand" if number == 1 else f"{number} containers were removed by hand"


def unended(app: HeldApp, containers: Iterable[Container]) -> list[Container]:
    """The containers of replicas that a stop has not reached: unmarked, and running or still to be started.

    Args:
        containers: inspected, which shows the containers that wait for a restart.
    """

    def is_idle(each: Container) -> bool:
        return not each.ended or app.waits(*where(each), each.id, each.started_at)

    replicas = (each for each in containers if is_replica(each) and each.state != "removing")
    return [each for each in replicas if each.live or (is_idle(each) and not mark_of(each))]


def _ns(seconds: float | None) -> int:
    return round((seconds or 0) * 1e9)
