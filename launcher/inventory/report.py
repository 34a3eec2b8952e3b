"""The model of a report: the apps of a window of time, their failures, resource use and results."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from launcher.dataclass import dataclass
from launcher.errors import LauncherError
from launcher.holding.use import Use
from launcher.inventory import recorded
from launcher.inventory.find import find_each
from launcher.inventory.listing import present
from launcher.inventory.logs import secrets_of, tail_of
from launcher.inventory.outputs import ResultRow, compare, read_results, success_before
from launcher.inventory.recorded import scheduler_of
from launcher.inventory.timeline import Timeline, of_events, of_record
from launcher.plan.reconcile import reached
from launcher.schedulers.ended_process import last_lines
from launcher.schedulers.registry import open_store
from launcher.specs.attempt import Attempt
from launcher.specs.jobkey import are_of_several_sessions
from launcher.state.records import AppRecord, ReplicaRecord, as_seen
from launcher.text import FEW

if TYPE_CHECKING:
    from launcher.inventory.listing import Warn

LINES = 20
"""The most lines of output to show of a failed app."""

MOST_DETAILED = 60
"""The most apps whose scheduler is asked for replicas, events and output."""

_DETAILS_S = 20.0
"""The seconds in which schedulers are asked, since one may be a cluster behind ssh."""

_MOST_RESULTS = 40
"""The most jobs whose results are shown, and the most results of one."""

_FAILED = ("failed", "lost")
_WHERE = re.compile(r"^\S+/\d+ ")

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportChoice:
    """The choice of apps for a report: all, or named and selected apps with all attempts of their jobs.

    Attributes:
        select: as `--select`: JOB, +JOB with those that it needs, JOB+ with those that need it.
        since: epoch seconds; only apps that were live then or later; None for any time.
        project, target: only of these jobs; None and "" for any.
    """

    names: Sequence[str] = ()
    select: Sequence[str] = ()
    since: float | None = None
    project: str | None = None
    target: str = ""


@dataclass(slots=True, kw_only=True)
class ReportedApp:
    """One app.

    Attributes:
        attempt: None for an app without a job.
        is_named_in_full: whether its name has project and target, since the report has several of them.
        is_detailed: whether its scheduler was asked, so that `app` has its replicas.
        tail_of: the replica whose last lines are `lines`; "" for none.
        unread: why there are no lines; "" when there are, or none were asked for.
    """

    app: AppRecord
    attempt: Attempt | None
    timeline: Timeline
    is_named_in_full: bool = False
    is_detailed: bool = False
    root: ReplicaRecord | None = None
    stack: Sequence[str] = ()
    tail_of: str = ""
    lines: Sequence[str] = ()
    unread: str = ""

    @property
    def key(self) -> Key:
        """The key of its job; an app without a job has a key of its own."""
        return self.app.key if self.app.job else (self.app.session, "", self.app.app_id)

    @property
    def name(self) -> str:
        """`train@3`; the name of an app without a job."""
        if not self.app.job:
            return self.app.name or self.app.app_id
        job = f"{self.app.session}/{self.app.job}" if self.is_named_in_full else self.app.job
        return f"{job}@{self.app.number}"

    @property
    def why(self) -> str:
        """The reason why the plan started the attempt, as a phrase; "" where that is unknown."""
        return self.attempt.reason if self.attempt is not None else ""

    @property
    def document(self) -> Mapping[str, Any]:
        return self.attempt.document if self.attempt is not None else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Attempts that failed in the same way, first the latest attempts of their jobs.

    Attributes:
        since_then: the outcome of the job's later attempt; "" when the first attempt is still its latest.
        skipped: the jobs that did not start because of it.
    """

    entries: Sequence[ReportedApp]
    since_then: str = ""
    skipped: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A waiting app, or waiting replicas of one, and the reason."""

    entry: ReportedApp
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleUse:
    """The request per replica of a role in a job's latest measured attempt, and the use of its runs."""

    entry: ReportedApp
    role: str
    replicas: int
    asked: Mapping[str, Any]
    used: Use


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The results of a job's latest success, each with that of the success before ("" without one)."""

    entry: ReportedApp
    before: str
    rows: Sequence[ResultRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that a report shows.

    Attributes:
        made_at: epoch seconds.
        counts: state → number of all apps, including the ones that are only counted.
        folded: state → number of the older apps, which are only counted.
        entries: the newest apps, the newest first.
        needs: key of each of their jobs → keys of the jobs that its latest attempt stands on.
    """

    choice: ReportChoice
    made_at: float
    counts: Mapping[str, int]
    folded: Mapping[str, int]
    entries: Sequence[ReportedApp]
    failures: Sequence[Failure]
    waits: Sequence[Wait]
    uses: Sequence[RoleUse]
    results: Sequence[Results]
    needs: Mapping[Key, Sequence[Key]]

    @property
    def latest(self) -> dict[Key, ReportedApp]:
        """Key → the latest attempt of each job."""
        return latest_of(self.entries)


def gather(choice: ReportChoice, limit: int, warn: Warn) -> Report:
    """The report of the newest `limit` apps of a choice.

    Raises LauncherError for an unknown name.
    """
    keys, single = _chosen(choice)
    apps, counts = _window(choice, keys, single, limit, warn)
    with open_store(readonly=True) as store:
        attempts = store.by_app_ids(app.app_id for app in apps)
    in_full = are_of_several_sessions(app.key for app in apps if app.job)
    entries = [_entry(app, attempts.get(app.app_id), in_full) for app in apps]
    latest = latest_of(entries)
    failures = list(_failures(entries, latest))
    live = [each for each in entries if each.app.is_live]
    _add_details([*(each.entries[0] for each in failures), *live, *entries], warn)
    folded = Counter(counts)
    folded.subtract(Counter(app.state for app in apps))
    return Report(
        choice=choice,
        made_at=time.time(),
        counts=counts,
        folded={state: number for state, number in folded.items() if number > 0},
        entries=entries,
        failures=failures,
        waits=list(_waits(live)),
        uses=list(_uses(entries)),
        results=list(_results(entries)),
        needs={
            key: [(*key[:2], need.job) for need in each.attempt.needs]
            for key, each in latest.items()
            if each.attempt is not None
        },
    )


def latest_of(entries: Iterable[ReportedApp]) -> dict[Key, ReportedApp]:
    """Return key → the latest entry of the job, in the order of the entries."""
    found: dict[Key, ReportedApp] = {}
    for each in entries:
        known = found.get(each.key)
        if known is None or (each.app.number or 0) > (known.app.number or 0):
            found[each.key] = each
    return found


# -- which apps ----------------------------------------------------------------------------------------------


def _chosen(choice: ReportChoice) -> tuple[set[Key] | None, list[AppRecord]]:
    """Return the chosen jobs (None for all), and single apps: numbered attempts and apps without a job."""
    if not choice.names and not choice.select:
        return None, []
    keys: set[Key] = set()
    single: list[AppRecord] = []
    for found in find_each(choice.names, choice.target):
        for each in found.selected:
            if each.app.job is None or each.is_attempt:
                single.append(each.app)
            else:
                keys.add(each.app.key)
    needs: dict[Key, list[Key]] = {}
    if any(word.startswith("+") or word.endswith("+") for word in choice.select):
        with open_store(readonly=True) as store:
            needs = {key: [(*key[:2], job) for job in jobs] for key, jobs in store.needs().items()}
    selected = find_each([word.strip("+") for word in choice.select], choice.target)
    for word, found in zip(choice.select, selected, strict=True):
        named = {app.key for app in found.apps if app.job}
        keys |= named
        keys |= reached(needs, named, "needs") if word.startswith("+") else set()
        keys |= reached(needs, named, "dependents") if word.endswith("+") else set()
    return keys, single


def _window(
    choice: ReportChoice, keys: set[Key] | None, single: list[AppRecord], limit: int, warn: Warn
) -> tuple[list[AppRecord], dict[str, int]]:
    """Return the newest apps of the choice in their present state, and the number of all by state."""

    def read() -> list[AppRecord]:
        with open_store(readonly=True) as store:
            found = store.window(limit, since=choice.since, project=choice.project, keys=keys)
        known = {each.handle for each in found}
        fresh = recorded.apps(each.app_id for each in single)
        return [*found, *(fresh.get(each.app_id, each) for each in single if each.handle not in known)]

    apps = [app for app in present(read, warn=warn) if choice.target in ("", app.target)]
    with open_store(readonly=True) as store:
        counts = store.tally(since=choice.since, project=choice.project, keys=keys)
    if choice.target or single:
        counts = dict(Counter(app.state for app in apps))
    return sorted(apps, key=lambda app: app.created_at or 0.0, reverse=True), counts


def _entry(app: AppRecord, attempt: Attempt | None, in_full: bool) -> ReportedApp:
    if attempt is not None and attempt.handle != app.handle:
        attempt = None
    if attempt is not None and app.is_live:
        attempt = as_seen(attempt, app)
    return ReportedApp(app=app, attempt=attempt, timeline=of_record(app), is_named_in_full=in_full)


# -- why they failed, and what waits -------------------------------------------------------------------------


def _failures(entries: Sequence[ReportedApp], latest: Mapping[Key, ReportedApp]) -> Iterator[Failure]:
    """Yield failures grouped by message, first those of jobs that have not run again since."""
    alike: dict[str, list[ReportedApp]] = {}
    for each in entries:
        if each.app.state in _FAILED:
            alike.setdefault(_WHERE.sub("", each.app.message) or each.app.app_id, []).append(each)
    skipped: dict[tuple[Key, int], list[str]] = {}
    for each in entries:
        if each.attempt is not None and each.app.state == "skipped" and latest[each.key] is each:
            by = each.app.message.partition(" ")[0]
            needs = (need for need in each.attempt.needs if need.job == by)
            for need in needs:
                skipped.setdefault(((*each.key[:2], need.job), need.number), []).append(each.name)
    for same in alike.values():
        same.sort(key=lambda each: latest[each.key] is not each)
    for same in sorted(alike.values(), key=lambda same: latest[same[0].key] is not same[0]):
        then = latest[same[0].key]
        yield Failure(
            entries=same,
            since_then="" if then is same[0] else _became(then.app.number, then.app.state),
            skipped=[name for each in same for name in skipped.get((each.key, each.app.number or 0), ())],
        )


def _became(number: int | None, state: str) -> str:
    """Return `attempt 3 failed`, `attempt 3 was cancelled`, `attempt 3 is running`."""
    passive = {"lost", "cancelled", "skipped"}
    verb = "was " if state in passive else "" if state in ("succeeded", "failed") else "is "
    return f"attempt {number} {verb}{state}"


def _waits(live: Iterable[ReportedApp]) -> Iterator[Wait]:
    for each in live:
        if each.app.is_held:
            yield Wait(entry=each, text=each.app.message)
            continue
        pending = [one for one in each.app.replicas if one.state == "pending" and one.message]
        if pending:
            texts = dict.fromkeys(one.message for one in pending)
            names = ", ".join(f"{one.role}/{one.k}" for one in pending[:FEW])
            more = f" and {len(pending) - FEW} more" if len(pending) > FEW else ""
            yield Wait(entry=each, text=f"{names}{more}: {'; '.join(texts)}")


def _add_details(wanted: Iterable[ReportedApp], warn: Warn) -> None:
    """Ask the schedulers for the replicas, events and output of the first apps."""
    until = time.monotonic() + _DETAILS_S
    unreached: set[str] = set()
    left = MOST_DETAILED
    for entry in wanted:
        if left <= 0 or time.monotonic() > until:
            return
        if entry.is_detailed or entry.app.scheduler in unreached or entry.app.state == "skipped":
            continue
        left -= 1
        try:
            _add_detail(entry)
        except LauncherError as error:
            unreached.add(entry.app.scheduler)
            warn(f"apps of {entry.app.scheduler} are shown as they were recorded: {error}")


def _add_detail(entry: ReportedApp) -> None:
    app, scheduler = entry.app, scheduler_of(entry.app)
    seen = scheduler.record(app.app_id)
    entry.is_detailed = True
    if seen is None or seen.handle != app.handle:
        try:
            scheduler.check_logs(app.app_id)
            entry.unread = "its record and its logs were removed"
        except LauncherError as error:
            entry.unread = str(error)
        return
    message = app.message
    app.update(seen)
    app.message = app.message or message if not app.is_held else message
    try:
        entry.timeline = of_events(scheduler.logs(app.app_id).events()(), app)
        if app.state in _FAILED:
            _add_output(entry)
    except LauncherError as error:
        entry.unread = str(error)


def _add_output(entry: ReportedApp) -> None:
    """Set the last lines of the replica that failed first, and its structured error."""
    replica, entry.lines = tail_of(entry.app, entry.document, LINES)
    entry.tail_of = f"{replica.role}/{replica.k}" if replica is not None else ""
    entry.root = entry.app.root_cause
    error = entry.root.error if entry.root is not None else None
    if error is not None:
        hidden = tuple(secrets_of(entry.document))
        entry.stack = last_lines((error.callstack or error.message).encode(errors="replace"), LINES, hidden)


# -- what they used, and what came out -----------------------------------------------------------------------


def _uses(entries: Iterable[ReportedApp]) -> Iterator[RoleUse]:
    seen: set[Key] = set()
    for each in entries:
        last = each.attempt if not each.app.is_live else None
        used = (last.used if last is not None else None) or each.app.used
        if not used or each.key in seen:
            continue
        seen.add(each.key)
        for role in each.document.get("roles", ()):
            if (found := used.get(role["name"])) is not None:
                count = role.get("num_replicas", 1)
                asked = role.get("resource", {})
                yield RoleUse(entry=each, role=role["name"], replicas=count, asked=asked, used=found)


def _results(entries: Iterable[ReportedApp]) -> Iterator[Results]:
    """Yield the results of jobs that have any, the newest first."""
    until = time.monotonic() + _DETAILS_S
    good = [each for each in entries if each.app.state == "succeeded" and each.app.output]
    for entry in list(latest_of(good).values())[:_MOST_RESULTS]:
        if time.monotonic() > until:
            return
        if new := read_results(entry.app):
            before = success_before(entry.app)
            old = read_results(before) if before is not None else None
            yield Results(
                entry=entry,
                before=f"{before.job}@{before.number}" if before is not None and old else "",
                rows=compare(old, new)[:_MOST_RESULTS],
            )
