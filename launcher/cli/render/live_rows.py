"""Choose the rows of a live table of jobs, for a terminal of any height. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from launcher.state.records import ENDED, LIVE, WAITING
from launcher.text import natural, plural

RECENT_S = 60.0
"""How long a job that has ended keeps its row."""

_INDENT = "  "
_BESIDE = 3  # rows beside jobs: two headings, and the count of those without a row
_LEAST = 2
"""Jobs whose names begin alike that are a family: those of a matrix."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    Attributes:
        kind: a job; the heading of a family; a group of jobs that have not started; a note.
        text: of a job the name to show: of one of a family, what differs from the others.
        job: the name of the job, or of the first one of a group.
        state, count: of a group.
    """

    kind: Literal["job", "heading", "group", "note"]
    text: str
    job: str = ""
    state: str = ""
    count: int = 0


def rows(states: Mapping[str, str], recent: Sequence[str], height: int) -> list[Row]:
    """Running jobs first, then `recent`, then a line for each group that has not started, then the counts.

    Args:
        states: name of each job → its state.
        recent: the names of the jobs that have ended a moment ago, the newest first.
        height: how many rows there may be, at least 3.
    """
    families = _families(states)
    held = [name for name in states if states[name] in WAITING]
    groups = _groups(held, states, families)
    counts = [Row("note", counted(states))] if len(states) > 1 else []
    room = max(1, height - len(counts))
    groups = _cut(groups, max(1, room // 3 if len(groups) < len(states) else room), "groups")
    running = [name for name in states if states[name] not in (*WAITING, *ENDED)]
    newest = recent[: max(0, room - len(groups) - len(running) - _BESIDE)]
    shown = [*_sorted(running), *_sorted(newest)]
    jobs = _jobs(shown, families, room - len(groups), len(recent) - len(newest))
    return [*jobs, *groups, *counts]


def counted(states: Mapping[str, str]) -> str:
    """`200 jobs: 8 running, 3 succeeded, 189 queued`."""
    known = [*states.values()]
    order = [state for state in LIVE if state not in WAITING] + [*ENDED, *WAITING]
    order += sorted({*known}.difference(order))
    counts = [f"{known.count(state)} {state}" for state in order if state in known]
    return f"{plural(len(known), 'job')}: {', '.join(counts)}"


def _jobs(names: Sequence[str], families: Mapping[str, str], room: int, left: int) -> list[Row]:
    """The rows of jobs, each family below its heading; the last one counts those without room, and `left`."""
    made: list[Row] = []
    heading = ""
    for name in names:
        family = families.get(name, "")
        if family and family != heading:
            made.append(Row("heading", f"{family}*"))
        heading = family
        made.append(Row("job", _INDENT + name[len(family) :] if family else name, name))
    return _cut(made, room, "jobs", left)


def _cut(made: list[Row], room: int, what: str, left: int = 0) -> list[Row]:
    if not left and len(made) <= room:
        return made
    kept = made[: max(0, room - 1)]
    if kept and kept[-1].kind == "heading":
        kept.pop()
    left += sum(each.kind != "heading" for each in made) - sum(each.kind != "heading" for each in kept)
    return [*kept, Row("note", f"… and {left} more {what if left > 1 else what[:-1]}")]


def _groups(held: Sequence[str], states: Mapping[str, str], families: Mapping[str, str]) -> list[Row]:
    found: dict[tuple[str, str], list[str]] = {}
    for name in _sorted(held):
        found.setdefault((families.get(name) or name, states[name]), []).append(name)
    return [
        Row("group", f"{family}*" if len(names) > 1 else names[0], names[0], state, len(names))
        for (family, state), names in found.items()
    ]


def _families(names: Mapping[str, str]) -> dict[str, str]:
    """Name → what it has in common with the others of its family, `sweep-lr-`; without those of no family."""
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(name.partition("-")[0], []).append(name)
    found = {}
    for each in alike.values():
        common = _common(min(each), max(each))
        if len(each) >= _LEAST and common:
            found.update(dict.fromkeys(each, common))
    return found


def _common(first: str, last: str) -> str:
    """What two names have in common, up to a dash."""
    same = 0
    while same < len(first) and first[same] == last[same : same + 1]:
        same += 1
    return first[: first.rfind("-", 0, same) + 1]


def _sorted(names: Sequence[str]) -> list[str]:
    return sorted(names, key=natural)
