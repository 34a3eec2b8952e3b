"""Read the texts below the list: status, output, use and turns. Waits for engines, so called in threads."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from launcher.cli import queue
from launcher.cli.console import visible
from launcher.cli.log_reader import LogRequest, read
from launcher.cli.render.log_lines import last_frames, terminal_text
from launcher.cli.render.status_text import status_text
from launcher.cli.render.values import asked_and_used, duration, table
from launcher.cli.screen.model import VIEWS
from launcher.dataclass import dataclass, replace
from launcher.errors import LauncherError
from launcher.holding.use import Use
from launcher.inventory import recorded
from launcher.inventory.find import Selected
from launcher.inventory.listing import what_starts
from launcher.inventory.logs import replicas_of, tail_of
from launcher.inventory.status import about, inspect
from launcher.inventory.turns import Tables
from launcher.state.records import AppRecord
from launcher.text import paint

PANES = ("status", "log", "use", "queue")
LAST_LINES = 2000
"""Lines of a log that are shown and searched."""
_FEW_LINES = 10
"""Lines of a log below the status of an app that has failed."""


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
    app = copy(asked.app)  # reading updates a record, and only the feed may update the list's
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
    if app.is_held or app.state == "skipped":
        verb = "has not started" if app.is_held else "was skipped"
        return Answer(asked=asked, lines=_shown(f"it {verb}: {app.message}", asked))
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
