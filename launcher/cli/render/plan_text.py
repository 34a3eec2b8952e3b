"""Render a plan as text: a line per changed job with its changes below it, counts, the digest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from launcher.cli.render.plan_lines import (
    BELOW,
    Family,
    about,
    action,
    by_attempts,
    change_lines,
    edited_lines,
    families,
    family_of,
    folded_rows,
    in_total,
    namer,
    role_lines,
    sent_to,
)
from launcher.plan.model import Plan, overruns, total_of
from launcher.plan.step import Guard, Step, keys_after
from launcher.specs.launch import JobKey
from launcher.text import FEW, listing, paint, plural, wrapped

COLUMNS = 80
"""Width without a terminal, or if its width is unknown."""

STYLES = {
    "keep": "dim",
    "create": "green",
    "replace": "yellow",
    "rerun": "cyan",
    "resume": "cyan",
    "destroy": "red",
    "hold": "yellow",
}
_CHANGE_STYLES = {"+": "green", "-": "red", "~": "yellow"}
_INDENT = "      "
_DEEPER = "    "


def plan_text(plan: Plan, *, color: bool = False, columns: int | None = None, in_full: bool = False) -> str:
    """The whole plan, without a newline at the end.

    Args:
        columns: width of the terminal. None without one: lines fit 80 columns if possible, and notes are
            not wrapped. New values are never cut.
        in_full: every job has a line; else the jobs of a large matrix share some.
    """
    name = namer(plan)
    shared = _shared_notes(plan.steps)
    # An unchanged job without a note of its own.
    quiet = {step.key for step in plan.steps if step.is_settled and not _own_notes(step, shared)}
    shown = [step for step in plan.steps if step.key not in quiet]
    folded = {} if in_full else families(plan.steps, shown, lambda step: _own_notes(step, shared))
    rows = list(folded_rows(_tree(shown), folded, name))
    # A name longer than half a line does not widen the column of names.
    sizes = (len(label) for _, label in rows if len(label) <= (columns or COLUMNS) // 2)
    page = _Page(name, max(sizes, default=0), shared, color, columns, folded)
    lines = [line for shows, label in rows for line in page.row(shows, label)]
    for orphan in plan.orphans:
        first, *more = _note(str(orphan), columns)
        lines += [f"{paint('?', 'yellow', color)}   {first}", *more]
    counted = {family_of(step) for step in shown if step.key in folded}
    unchanged = [step for step in plan.steps if step.key in quiet and family_of(step) not in counted]
    for text in _unchanged([step for step in unchanged if not step.is_edited], name):
        lines += [paint(line, "dim", color) for line in _note(text, columns)]
    for text in edited_lines([step for step in unchanged if step.is_edited], plan.steps, name):
        first, *more = _note(text, columns)
        lines += [f"{paint('=', 'dim', color)}   {first}", *more]
    notes = [f"note for {_jobs_of_note(steps, shown, name)}: {note}" for note, steps in shared.items()]
    notes += [*plan.shared, *(f"turns: {each}" for each in plan.turns)]
    lines += [paint(line, "dim", color) for note in notes for line in _note(note, columns)]
    lines += [""] if lines else []
    lines.append(paint(plan.summary(), "bold", color))
    lines += _costs(plan, color, columns)
    if receivers := sent_to(plan.receivers):
        lines += _note(receivers, columns)
    if not plan.is_empty:
        lines += [paint(line, "dim", color) for line in ("Digest:", plan.plan_digest)]
    return "\n".join(lines)


def _costs(plan: Plan, color: bool, columns: int | None) -> Iterator[str]:
    """Yield the lines about the cost of all jobs that the plan starts, and the budgets that it exceeds."""
    if not plan.is_estimated:
        return
    if total := in_total(total_of(plan.steps)):
        yield from (paint(line, "dim", color) for line in _note(f"Takes {total}", columns))
    for each in overruns(plan.steps):
        yield from (paint(line, "red", color) for line in _note(f"blocked: {each}", columns))
        yield from _note(f"to go on: {each.remedy}", columns)


def _tree(steps: Sequence[Step]) -> list[tuple[Step, int]]:
    """Yield each step with its depth: a step that waits for others is below the last of them."""
    if not any(map(keys_after, steps)):
        return [(step, 0) for step in steps]
    by_job = {step.key: step for step in steps if step.launch is not None}
    depths: dict[int, int] = {}
    below: dict[int, list[Step]] = {}

    def depth(step: Step) -> int:
        return depths.setdefault(id(step), 1 + max(map(depth, awaited(step)), default=-1))

    def awaited(step: Step) -> list[Step]:
        found = map(by_job.get, keys_after(step))
        return [each for each in found if each is not None]

    for step in steps:
        last = max(awaited(step), key=depth, default=None)
        below.setdefault(id(last), []).append(step)

    def branch(parent: Step | None) -> Iterator[tuple[Step, int]]:
        for step in below.get(id(parent), ()):
            yield step, depth(step)
            yield from branch(step)

    return list(branch(None))


class _Page:
    """Renders steps; of jobs with the same changes, only the first shows them."""

    def __init__(
        self,
        name: Callable[[Step], str],
        size: int,
        shared: Mapping[str, Sequence[Step]],
        color: bool,
        columns: int | None,
        folded: Mapping[JobKey, Family],
    ) -> None:
        self._name = name
        self._size = size
        self._shared = shared
        self._color = color
        self._terminal = columns and columns - len(_INDENT)
        self._columns = (columns or COLUMNS) - len(_INDENT)
        self._folded = folded
        self._shown: dict[str, Step] = {}

    def row(self, shows: Step | Family | str, label: str) -> Iterator[str]:
        if isinstance(shows, str):
            yield paint(f"    {BELOW}{shows}", "dim", self._color)
        elif isinstance(shows, Family):
            first = shows.first
            mark = paint(first.mark.ljust(3), f"bold {STYLES[first.kind]}", self._color)
            cost = in_total(total_of(shows.members))
            summary = f"{shows.summary}, {cost}" if cost else shows.summary
            yield f"{mark} {paint(shows.title, 'bold', self._color)}: {summary}"
        else:
            yield from self.step(shows, label)

    def step(self, step: Step, label: str) -> Iterator[str]:
        first = self._shown.setdefault(repr(step.changes), step)
        mark = paint(step.mark.ljust(3), f"bold {STYLES[step.kind]}", self._color)
        name = paint(label.ljust(self._size), "bold", self._color)
        # The roles below show that a job is new.
        plain = len(step.reasons) == 1 and step.reasons[0].code == "no_attempt" and not step.reasons[0].detail
        why = "" if step.after and plain else f": {step.why(self._changed(step, first))}"
        taken = len(_INDENT) + max(self._size, len(label))
        text, *more = _beside(f"{action(step)}{why}", taken, self._terminal)
        yield f"{mark} {name}  {text}"
        yield from (_INDENT + _DEEPER + line for line in more)
        for text, style in self._below(step, first):
            yield _INDENT + paint(text, style, self._color)

    def _changed(self, step: Step, first: Step) -> str:
        """`2 changes since attempt 1 (succeeded)`."""
        if first is not step:
            count = "change" if len(step.changes) == 1 else f"{len(step.changes)} changes"
            return f"the {count} of {self._name(first)}"
        since = step.guard if step.latest is None else Guard.of(step.latest)
        return f"{plural(len(step.changes), 'change')} since {since}"

    def _below(self, step: Step, first: Step) -> Iterator[tuple[str, str]]:
        """Return the texts below a step, with their styles."""
        if step.starts and any(reason.code == "no_attempt" for reason in step.reasons):
            yield from ((line, "") for line in role_lines(step.document, self._columns))
        if first is step:
            for change in step.changes:
                for op, text, depth in change_lines(change, self._columns - 2):
                    style = _CHANGE_STYLES.get(op or change.op, "")
                    yield _DEEPER * depth + f"{op} {text}".lstrip(), style
        if step.starts and step.estimate is not None and step.key not in self._folded:
            text = f"{about(step.estimate)} {by_attempts(step.estimate)}"
            yield from ((line, "dim") for line in _note(text, self._terminal))
        if step.waits_for:
            yield from ((line, "") for line in _note(f"waits for {step.waits_for}", self._terminal))
        if step.has_effects:
            yield from ((f"stops {stop.app_id} ({stop.state})", "red") for stop in step.stops)
            yield from ((f"withdraws {each.app_id} ({each.state})", "") for each in step.withdraws)
        if step.kind == "hold":
            remedy = _remedy(step)
            # An option and its value stay on one line, so that they can be copied.
            columns = None if "--" in remedy else self._terminal
            yield from ((line, "") for line in _note(remedy, columns))
        for note in step.notes:
            if note not in self._shared:
                yield from ((line, "dim") for line in _note(f"note: {note}", self._terminal))


def _note(text: str, columns: int | None) -> Iterator[str]:
    first, *more = wrapped(text, columns - len(_DEEPER)) if columns else [text]
    yield first
    yield from (_DEEPER + line for line in more)


def _beside(text: str, taken: int, columns: int | None) -> list[str]:
    """Wrap a text that stands behind `taken` columns of its line, and further lines after an indent.

    Args:
        columns: those after the indent; None does not wrap.
    """
    if not columns:
        return [text]
    behind = "-" * (taken - len(_INDENT))  # one word with the first of the text
    first, *rest = wrapped(behind + text, columns)
    return [first[len(behind) :], *(wrapped(" ".join(rest), columns - len(_DEEPER)) if rest else ())]


def _shared_notes(steps: Sequence[Step]) -> dict[str, list[Step]]:
    """Notes that several steps share → these steps."""
    by_note: dict[str, list[Step]] = {}
    for step in steps:
        for note in step.notes:
            by_note.setdefault(note, []).append(step)
    return {note: steps for note, steps in by_note.items() if len(steps) > 1}


def _own_notes(step: Step, shared: Mapping[str, Sequence[Step]]) -> tuple[str, ...]:
    return tuple(note for note in step.notes if note not in shared)


def _jobs_of_note(steps: Sequence[Step], shown: Sequence[Step], name: Callable[[Step], str]) -> str:
    """`all 12 jobs`, `3 jobs (a, b, c)`."""
    if [step.key for step in steps] == [step.key for step in shown]:
        return f"{'both' if len(steps) == 2 else f'all {len(steps):,}'} jobs"
    return f"{len(steps):,} jobs ({listing([name(step) for step in steps])})"


def _remedy(step: Step) -> str:
    """Return the advice for a held job."""
    if step.blocked == "protected":
        return "to allow stopping it, remove `protect: true` from the job file, or cancel the attempt"
    if step.blocked == "over_capacity":
        if step.reasons[0].path:
            return "to start it, ask for fewer cores, or use an engine with more"
        return "to start it, ask for fewer; LAUNCHER_GPUS says how many this machine has"
    if step.blocked == "refused":
        return "to start it, change the request; without --check it is submitted as it is"
    if step.blocked == "on_change_hold":
        rerun = f"pass --rerun {step.key.job}"
        if step.guard.state == "running":
            return f"to replace it, set `on_change: replace` in the job file, or {rerun}"
        return f"to run it, remove `on_change: hold` from the job file, or {rerun}"
    if step.reasons[0].code == "record_unreadable" and (step.latest is None or step.latest.is_live):
        return "to go on, put its record right: until then nothing of the job is started or stopped"
    if any(reason.code == "unapproved" for reason in step.reasons):
        return "to carry it out, review a plan that shows it, and approve that one"
    if failed := {each.detail.partition(":")[0] for each in step.reasons if each.code == "needs_failed"}:
        needs = [need.job for need in step.launch.needs] if step.launch is not None else []
        jobs = [need for need in needs if need in failed] or needs
        return f"it follows once {listing(jobs)} {'has' if len(jobs) == 1 else 'have'} succeeded"
    return f"to run it again: --rerun {step.key.job}"


def _unchanged(steps: Sequence[Step], name: Callable[[Step], str]) -> Iterator[str]:
    """Return texts on unchanged jobs: number and names per reason. A large matrix has one name."""
    by_reason: dict[str, dict[object, list[Step]]] = {}
    for step in steps:
        code = step.reasons[0].code
        why = _HELD.get(step.guard.state) if code == "already_running" else None
        reason = why or _UNCHANGED.get(code, code.replace("_", " "))
        found = by_reason.setdefault(reason, {})
        found.setdefault(family_of(step) or step.key, []).append(step)
    for reason, found in by_reason.items():
        total = sum(map(len, found.values()))
        names = [text for members in found.values() for text in _names(members, total, name)]
        yield f"=   {plural(total, 'job')} unchanged, {reason}: {listing(names)}"


def _names(members: Sequence[Step], total: int, name: Callable[[Step], str]) -> list[str]:
    """Return the names of jobs of a matrix; for many, its name and, unless it is `total`, their number."""
    first, family = members[0], family_of(members[0])
    if family is None or len(members) <= FEW:
        return [name(step) for step in members]
    label = name(first).removesuffix(first.key.job) + family[1]
    return [label if len(members) == total else f"{label} ({len(members):,})"]


_HELD = {"waiting": "waiting for other jobs", "queued": "in line"}
_UNCHANGED = {
    "already_succeeded": "already succeeded",
    "already_running": "already running",
    "disabled": "disabled in the file",
}
