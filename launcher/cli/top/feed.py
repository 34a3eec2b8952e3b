"""Read what the screen shows: the records of apps as they change, and the texts of the panes below the list.

Reading waits for engines, so threads do it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any

from launcher import paths
from launcher.cli import queue
from launcher.cli.console import visible
from launcher.cli.log_reader import LogRequest, read
from launcher.cli.render.apps import status_text
from launcher.cli.render.log_lines import last_frames
from launcher.cli.render.terminal_text import terminal_text
from launcher.cli.render.values import asked_and_used, duration, table
from launcher.cli.top.model import VIEWS, Filter, restart_limit
from launcher.dataclass import dataclass, replace
from launcher.errors import LauncherError
from launcher.holding.use import Use
from launcher.inventory import recorded
from launcher.inventory.find import Selected
from launcher.inventory.listing import current, say_why_held, what_starts
from launcher.inventory.logs import replicas_of, tail_of
from launcher.inventory.recorded import scheduler_of
from launcher.inventory.status import about, inspect
from launcher.inventory.turns import Tables
from launcher.schedulers.api import Scheduler
from launcher.state.records import AppRecord
from launcher.text import paint
from launcher.turns.machine import gpu_table, slots_table

INTERVAL_S = 0.25
"""Seconds between two checks for changes, as often as `status --watch` refreshes."""
_SHARE = 4  # refreshing takes at most 1/4 of the time
_ASKING_SHARE = 200  # asking all apps of a scheduler takes at most 1/200 of the time
_LONGEST_S = 90.0
_DEAD_S = 5.0
"""Seconds between queries of apps that report changes themselves, since a killed holder reports nothing."""
_NEWEST = 50  # the newest apps, which may have started and ended between two checks
_MOST_RECENT = 500  # once so many apps have ended, the places of ended apps are read again

Post = Callable[[Callable[[], None]], None]


class RequestThread:
    """A thread that carries out the latest request of each name; an older one of that name is dropped.

    Args:
        post: calls a function in the thread of the screen.
        failed: called in that thread with the message of an error.
    """

    def __init__(self, post: Post, failed: Callable[[str], None]) -> None:
        self._post, self._failed = post, failed
        self._asked: dict[str, Callable[[], None]] = {}
        self._wake = threading.Condition()
        self._closed = False

    def begin(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        with self._wake:
            self._closed = True
            self._wake.notify()

    def ask(self, name: str, work: Callable[[], None]) -> None:
        with self._wake:
            self._asked[name] = work
            self._wake.notify()

    def idle(self) -> float | None:
        """Called when there is no request; returns how many seconds to wait for one, None for ever."""
        return None

    def _run(self) -> None:
        timeout_s: float | None = 0.0
        while not self._closed:
            with self._wake:
                if not self._asked:
                    self._wake.wait(timeout_s)
                name = next(iter(self._asked), "")
                work = self._asked.pop(name, None)
            try:
                if work is not None:
                    work()
                elif not self._closed:
                    timeout_s = self.idle()
            except LauncherError as error:
                text = str(error)
                self._post(lambda text=text: self._failed(text))  # type: ignore[misc]
                timeout_s = INTERVAL_S * _SHARE
            except Exception as error:  # a bug: shown by the thread of the screen, which ends with it
                self._post(_raiser(error))
                return


def _raiser(error: Exception) -> Callable[[], None]:
    def throw() -> None:
        raise error

    return throw


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """The present apps.

    Attributes:
        live: the apps that have not ended.
        recent: the apps that have ended since the places of ended apps were read, the last one first.
        limits: app id → how often it may restart.
        asked: the ids of the apps that were read anew.
        turns: whether the turns may have changed.
    """

    live: Sequence[AppRecord]
    recent: Sequence[AppRecord]
    limits: Mapping[str, int]
    asked: frozenset[str]
    turns: bool


class _Changes:
    """Finds out what may have changed since the last check. For one thread.

    Every app is asked again from time to time. An app of a scheduler that knows of changes without its engine
    (`Scheduler.changed`) is asked when it has changed, too.
    """

    def __init__(self) -> None:
        self._signs: dict[str, Any] = {}
        self._schedulers: dict[str, Scheduler[Any]] = {}
        self._due: dict[str, float] = {}
        self._every_s: dict[str, float] = {}

    def records(self) -> bool:
        """Whether the ledger has been written to since the last check."""
        return self._differs("ledger", [paths.ledger(), f"{paths.ledger()}-wal"])

    def turns(self) -> bool:
        """Whether an app has joined or left a line, or has got or given up its share."""
        return self._differs("turns", [slots_table(), gpu_table()])

    def among(self, apps: Iterable[AppRecord]) -> list[AppRecord]:
        """Return the live apps to ask now."""
        of_each: dict[str, list[AppRecord]] = {}
        for app in apps:
            of_each.setdefault(app.scheduler, []).append(app)
        return [app for name, each in of_each.items() for app in self._of(name, each)]

    def asked(self, apps: Iterable[AppRecord], spent_s: float) -> None:
        """Note how long the query of these apps took, so that slow queries are rarer."""
        for name in {app.scheduler for app in apps}:
            wait_s = max(self._every_s.get(name, 0.0), min(spent_s * _ASKING_SHARE, _LONGEST_S))
            self._due[name] = time.monotonic() + wait_s

    def _of(self, name: str, apps: Sequence[AppRecord]) -> Sequence[AppRecord]:
        if name not in self._schedulers:
            self._schedulers[name] = scheduler_of(apps[0])
        changed = self._schedulers[name].changed([app.app_id for app in apps])
        self._every_s[name] = self._schedulers[name].describe_every_s if changed is None else _DEAD_S
        if time.monotonic() >= self._due.get(name, 0.0):
            return apps
        return [app for app in apps if app.app_id in changed] if changed else ()

    def _differs(self, name: str, files: Sequence[str]) -> bool:
        now: list[tuple[int, int, int] | None] = []
        for path in files:
            try:
                found = os.stat(path)
                now.append((found.st_ino, found.st_size, found.st_mtime_ns))
            except OSError:
                now.append(None)
        before = self._signs.get(name)
        self._signs[name] = now
        return now != before


class Feed(RequestThread):
    """Reads the records of apps: first from the ledger, then the changed ones from engines.

    Args:
        show: called with the present apps in the thread of the screen.
    """

    def __init__(self, post: Post, failed: Callable[[str], None], show: Callable[[Present], None]) -> None:
        super().__init__(post, failed)
        self._show = show
        self._changes = _Changes()
        self._live: dict[str, AppRecord] = {}
        self._recent: dict[str, AppRecord] = {}
        self._limits: dict[str, int] = {}
        self._read_at = time.time()
        self._again = threading.Event()

    @property
    def is_full(self) -> bool:
        """Whether enough apps have ended that their places should be read again."""
        return len(self._recent) > _MOST_RECENT

    def first(self) -> Present:
        """Read the apps from the ledger."""
        self._changes.records()
        self._live = {app.handle: app for app in recorded.live()}
        return self._present(frozenset(), turns=False)

    def find(self, chosen: Filter, show: Callable[[object], None]) -> None:
        """Read the places of the ended apps that a filter takes; called as a request."""
        self._read()  # otherwise an app that is live here would be missing among the places
        at = time.time()
        places = recorded.ended(chosen.words, chosen.states)
        self._recent, self._read_at = {}, at
        self._post(lambda: show(places))
        present = self._present(frozenset(), turns=False)
        self._post(lambda: self._show(present))

    def look(self) -> None:
        """Request all apps from their engines now."""
        self._again.set()

    def idle(self) -> float:
        began = time.monotonic()
        is_new = self._changes.records() or self._again.is_set()
        if is_new:
            self._again.clear()
            self._read()
        asked = self._changes.among(self._live.values())
        if asked:
            before = time.thread_time()
            self._refresh(asked)
            if len(asked) >= len(self._live):
                self._changes.asked(asked, time.thread_time() - before)
        turns = self._changes.turns()
        if asked or is_new or turns:
            say_why_held([*self._live.values()])
            present = self._present(frozenset(app.app_id for app in asked), turns=turns)
            self._post(lambda: self._show(present))
        return max(INTERVAL_S, (_SHARE - 1) * (time.monotonic() - began))

    def _read(self) -> None:
        """Find the apps that are new in the ledger, and the apps whose end was recorded since."""
        known = {app.handle: app for app in recorded.live()}
        gone = [app for handle, app in self._live.items() if handle not in known]
        if gone or known.keys() != self._live.keys():
            self._live = {handle: self._live.get(handle, app) for handle, app in known.items()}
        self._ended(current(gone))
        newest = recorded.newest(_NEWEST)
        self._ended([app for app in newest if app.has_ended and (app.ended_at or 0.0) > self._read_at])

    def _refresh(self, apps: Sequence[AppRecord]) -> None:
        warnings: list[str] = []
        seen = current(apps, warn=warnings.append)
        for text in warnings:
            self._post(lambda text=text: self._failed(text))  # type: ignore[misc]
        for app in seen:
            if app.is_live:
                self._live[app.handle] = app
            else:
                self._live.pop(app.handle, None)
        self._ended([app for app in seen if not app.is_live])
        new = [app.app_id for app in seen if app.num_restarts and app.app_id not in self._limits]
        for app_id, attempt in recorded.attempts(new).items() if new else ():
            self._limits[app_id] = restart_limit(attempt.document)

    def _ended(self, apps: Sequence[AppRecord]) -> None:
        for app in sorted(apps, key=lambda each: each.ended_at or 0.0):
            if app.has_ended and app.handle not in self._recent:
                self._recent = {app.handle: app, **self._recent}

    def _present(self, asked: frozenset[str], *, turns: bool) -> Present:
        return Present(
            live=[*self._live.values()],
            recent=[*self._recent.values()],
            limits=dict(self._limits),
            asked=asked,
            turns=turns,
        )


PANES = ("status", "log", "use", "queue")
LAST_LINES = 2000
"""Lines of a log that are shown and searched."""
_FEW_LINES = 10
"""Log lines to show below the status of a failed app."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request for a pane's text. `replica` is a number within the app, from 0, and may be past the last."""

    pane: str
    app: AppRecord | None
    stream: str = "combined"
    replica: int = 0
    columns: int = 80
    in_full: bool = False
    color: bool = True

    def is_of(self, other: Asked) -> bool:
        """Whether both requests are for the same text, perhaps at different times."""
        if self.pane == other.pane == "queue":
            return True
        one, two = ((each.pane, each.app and each.app.handle) for each in (self, other))
        return one == two and (self.stream, self.replica) == (other.stream, other.replica)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A text for a pane: lines that are safe for a terminal.

    Attributes:
        title: a description of the lines, beside the name of the pane.
        is_tail: whether its last lines are the ones that matter.
        spent_s: how long it took to make.
    """

    asked: Asked
    lines: Sequence[str]
    title: str = ""
    is_tail: bool = False
    spent_s: float = 0.0


def answer(asked: Asked) -> Answer:
    """Read what a pane shows. Raises LauncherError."""
    began = time.monotonic()
    app = copy(asked.app)  # reading updates a record, and the list's record belongs to the feed
    if asked.pane == "queue":
        tables = Tables.read()
        text = queue.as_text(tables, in_full=asked.in_full, color=asked.color, columns=asked.columns)
        made = Answer(asked=asked, lines=_shown("\n".join([text, *queue.notes(tables)]), asked))
    elif app is None:
        made = Answer(asked=asked, lines=["no job is selected"])
    elif asked.pane == "log":
        made = _log(asked, app)
    elif asked.pane == "use":
        made = Answer(asked=asked, lines=_shown(_use(app, asked.color), asked))
    else:
        made = Answer(asked=asked, lines=_shown(_status(app, asked.color), asked))
    return replace(made, spent_s=time.monotonic() - began)


def _shown(text: str, asked: Asked) -> list[str]:
    return visible(text, color=asked.color).split("\n")


def _status(app: AppRecord, color: bool) -> str:
    found = inspect(app)
    starts = what_starts(found) if found.state == "skipped" else ""
    text = status_text(found, more={"starts": starts} if starts else {}, color=color)
    return f"{text}{_last_lines(found, color)}" if found.state in VIEWS["failed"] else text


def _last_lines(app: AppRecord, color: bool) -> str:
    """The end of the output of the replica that failed first, without secrets; "" for none."""
    try:
        replica, lines = tail_of(app, about(app).get("document", {}), _FEW_LINES)
    except LauncherError as error:
        return "\n\n" + paint(f"no output is shown: {error}", "dim", color)
    if replica is None or not lines:
        return ""
    head = paint(f"the last lines of {replica.role}/{replica.k}", "dim", color)
    return "\n".join(["\n", head, *(f"  {line}" for line in lines)])


def _log(asked: Asked, app: AppRecord) -> Answer:
    if (app.is_held and app.started_at is None) or app.state == "skipped":
        return Answer(asked=asked, lines=_shown(f"it {app.idle_verb}: {app.message}", asked))
    replicas = replicas_of(Selected(app))
    if not replicas:
        return Answer(asked=asked, lines=["it has no replicas yet"])
    role, k = replicas[asked.replica % len(replicas)]
    request = LogRequest([(role, k)], asked.stream)
    request.tail = LAST_LINES
    data = last_frames(terminal_text(b"".join(read(app, request)))).decode("utf-8", "replace")
    lines = data.removesuffix("\n").expandtabs(4).replace("\b", "").replace("\r", "").split("\n")
    stream = "stdout and stderr" if asked.stream == "combined" else asked.stream
    of = f" of {len(replicas)} replicas" if len(replicas) > 1 else ""
    title = f"{role}/{k}{of}, {stream}"
    if len(lines) >= LAST_LINES:
        title += f", last {LAST_LINES:,} lines"
    return Answer(
        asked=asked, lines=lines if data else [f"no output on {stream} yet"], title=title, is_tail=True
    )


def _use(app: AppRecord, color: bool) -> str:
    attempt = recorded.attempt(app.app_id)
    if attempt is None or attempt.handle != app.handle:
        return "use is recorded for the attempts of jobs; this app has no job"
    roles: Sequence[Mapping[str, Any]] = attempt.document.get("roles", ())
    names = dict.fromkeys([*(role["name"] for role in roles), *attempt.used])
    of_role = {role["name"]: role for role in roles}
    rows = [_use_row(name, of_role.get(name, {}), attempt.used.get(name)) for name in names]
    headings = ["ROLE", "REPLICAS", "RUNS", "CORES", "USED", "MEMORY", "USED", "MEASURED", "GPUS", "TIME"]
    lines = [table(headings, rows, color=color)]
    if limit := attempt.document.get("timeout_s"):
        lines.append(f"\nits time limit is {duration(limit)}")
    if not attempt.used:
        why = "it is recorded when a run ends" if app.is_live else "none was recorded for this attempt"
        lines.append(f"\n{paint(f'asked by each replica; use: {why}', 'dim', color)}")
    else:
        note = "asked by each replica; used by a run: mean cores and highest memory of the busiest, all time"
        lines.append(f"\n{paint(note, 'dim', color)}")
    return "\n".join(lines)


def _use_row(name: str, role: Mapping[str, Any], used: Use | None) -> list[str]:
    asked = role.get("resource", {})
    *shown, _, took = asked_and_used(asked, used)
    return [
        name or "(left behind)",
        str(role.get("num_replicas", 1)) if role else "",
        str(used.runs) if used else "",
        *shown,
        str(asked["gpu"]) if asked.get("gpu", 0) > 0 else "",
        took,
    ]
