"""Lines that plans have as text and as Markdown: roles, changes, folded matrices, edited jobs, estimates.

Long texts are cut to what differs. Steps of a matrix that stop, are held or differ are shown by themselves.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from launcher.cli.render.document import flat
from launcher.cli.render.values import GAP, cut, duration
from launcher.dataclass import dataclass
from launcher.plan.decide import ran
from launcher.plan.diff import Change, differences, field, is_workspace_digest, show, show_both
from launcher.plan.model import Plan, PlanTotal
from launcher.plan.step import UNITS, Estimate, Step, in_hours
from launcher.specs.jobkey import JobKey, are_of_several_sessions
from launcher.specs.macros import with_brackets
from launcher.specs.notify import Destination
from launcher.specs.secret import HIDDEN, hide
from launcher.text import FEW, listing, named, natural, plural, printable, some_of, width

_LEAST = 20  # minimum columns of a command line
_BARE = r"[^\s\"'\\`]+\Z"


def role_lines(document: Mapping[str, Any], columns: int) -> Iterator[str]:
    """`greeter ×2  sh -c "echo …"  local_cwd` for each role, in columns; long commands are cut at their end.

    The line below a role says whether it is a service, and for which roles it waits: `after server (ready)`.
    Hides literals under sensitive-looking names, as plans do.
    """
    rows = [
        (
            f"{role['name']} {_times(role)}".rstrip(),
            command(role),
            " ".join(filter(None, (document["scheduler"], role.get("image", "")))),
        )
        for role in document["roles"]
    ]
    names, _, places = (max((width(row[k]) for row in rows), default=0) for k in range(3))
    room = max(_LEAST, columns - names - places - 2 * len(GAP))
    size = min(room, max((width(row[1]) for row in rows), default=0))
    for role, (name, line, place) in zip(document["roles"], rows, strict=True):
        yield GAP.join((_padded(name, names), _padded(cut(line, size), size), place))
        # `service, after db (ready), data (succeeded)`
        waits = ", ".join(f"{other} ({condition})" for other, condition in role.get("depends_on", {}).items())
        order = ["service" if role.get("service") else "", waits and f"after {waits}"]
        if any(order):
            yield f"{' ' * names}{GAP}{', '.join(filter(None, order))}"


def what_runs(role: Mapping[str, Any]) -> str:
    """`×2  python eval.py`, for a role of a document."""
    return GAP.join(filter(None, (_times(role), command(role), role.get("image", ""))))


def _times(role: Mapping[str, Any]) -> str:
    count = role.get("num_replicas", 1)
    return "" if count == 1 else f"×{count}"


def command(role: Mapping[str, Any]) -> str:
    """The command line of a role of a document, on one line."""
    return " ".join(map(_quoted, [role["entrypoint"], *hide(role.get("args", []), "args")]))


def _quoted(word: str) -> str:
    """Quote a word with blanks or quotes; as JSON if it needs escapes."""
    if word.isprintable() and re.match(_BARE, word):
        return with_brackets(word)
    if word.isprintable() and "'" not in word and ('"' in word or "\\" in word):
        return f"'{with_brackets(word)}'"
    return show(word)


def _padded(text: str, size: int) -> str:
    return text + " " * (size - width(text))


MOST_FILES = 10
"""Changed files of a workspace that are listed; more are counted."""


class ChangeLine(NamedTuple):
    """A line about a change. `op`: "+" added, "-" removed, "~" changed, "" several. `depth`: 0 or 1."""

    op: str
    text: str
    depth: int = 0


def change_lines(change: Change, columns: int) -> Iterator[ChangeLine]:
    """Lines of one change that fit `columns` if possible: a heading, and details below it."""
    both = change.old, change.new
    are_texts = change.op == "~" and HIDDEN not in both and all(isinstance(each, str) for each in both)
    if is_workspace_digest(change.path):
        heading, *pieces = _workspace(change)
        yield from (heading, *_packed(pieces, columns - 4))
    elif _is_role(change):
        yield ChangeLine("+", f"{field(change.path)}: {what_runs(change.new)}")
    elif are_texts and width(str(change)) > columns:
        yield ChangeLine("~", f"{field(change.path)}:")
        yield from (ChangeLine(op, text, 1) for op, text in differences(change.old, change.new, columns - 6))
    else:
        yield ChangeLine(change.op, str(change)[2:])


def diff_lines(change: Change, columns: int) -> Iterator[str]:
    """Lines of one change as a diff: a replaced value is a removed and an added line."""
    if _is_role(change):
        yield from (f"+ {line}" for line in flat({"roles": [change.new]}))
        return
    is_workspace = is_workspace_digest(change.path)
    lines = [*(_workspace(change) if is_workspace else change_lines(change, columns))]
    if change.op == "~" and len(lines) == 1 and not is_workspace and change.old != HIDDEN:
        path, (old, new) = field(change.path), show_both(change.path, change.old, change.new)
        lines = [ChangeLine("-", f"{path} = {old}"), ChangeLine("+", f"{path} = {new}")]
    for op, text, depth in lines:
        yield f"{op if op and (op, depth) != ('~', 0) else ' '} {text}"


def _workspace(change: Change) -> Iterator[ChangeLine]:
    """Return the changed files, if the earlier ones are recorded, and the present size."""
    name = field(change.path)
    from launcher.workspace.manifest import amount, changed_files, known

    old = known(change.old) if isinstance(change.old, str) else None
    new = known(change.new) if isinstance(change.new, str) else None
    if new is None:
        yield ChangeLine(change.op, str(change)[2:])
    elif change.op == "+":
        yield ChangeLine("+", f"{name}: {amount(new)}")
    elif old is None:
        yield ChangeLine("~", f"{name}: changed (earlier files not recorded); now {amount(new)}")
    else:
        changed = changed_files(old, new)
        yield ChangeLine("~", f"{name}: {len(changed)} changed; now {amount(new)}")
        yield from (ChangeLine(op, printable(path), 1) for op, path in changed[:MOST_FILES])
        if len(changed) > MOST_FILES:
            yield ChangeLine("", f"… and {len(changed) - MOST_FILES} more", 1)


def _packed(lines: Sequence[ChangeLine], columns: int) -> Iterator[ChangeLine]:
    """Join lines as long as they fit: `+ notes.txt, ~ train.py`."""
    text = ""
    for line in lines:
        piece = f"{line.op} {line.text}".lstrip()
        if text and width(f"{text}, {piece}") > columns:
            yield ChangeLine("", f"{text},", 1)
            text = piece
        else:
            text = f"{text}, {piece}" if text else piece
    if text:
        yield ChangeLine("", text, 1)


def _is_role(change: Change) -> bool:
    return (
        change.op == "+"
        and change.path.startswith("roles")
        and isinstance(change.new, Mapping)
        and "entrypoint" in change.new
    )


BELOW = "  "
"""The indentation of a label below another line."""

_WORDS = {"keep": "unchanged", "hold": "held"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The steps of one matrix, most of which a plan shows together.

    Attributes:
        name: of the matrix.
        counts: kind of step → number of such members, quiet ones included.
        alike: groups of steps that differ in values alone; each group has one line.
        alone: steps that stop something or are held; each has its own line.
        further: steps beyond the first FEW of such steps, which are only counted.
    """

    name: str
    counts: Mapping[str, int]
    alike: Sequence[Sequence[Step]]
    alone: Sequence[Step] = ()
    further: Sequence[Step] = ()

    @property
    def title(self) -> str:
        """`sweep (1,000 jobs)`."""
        return f"{self.name} ({sum(self.counts.values()):,} jobs)"

    @property
    def summary(self) -> str:
        """`12 create, 988 unchanged`."""
        return in_words(self.counts)

    @property
    def members(self) -> Iterator[Step]:
        """The steps that plans show, without quiet ones."""
        return chain(*self.alike, self.alone, self.further)

    @property
    def first(self) -> Step:
        return self.alike[0][0] if self.alike else self.alone[0]


def in_words(counts: Mapping[str, int]) -> str:
    """`12 create, 988 unchanged`."""
    last = sorted(counts.items(), key=lambda each: each[0] == "keep")
    return ", ".join(f"{count:,} {_WORDS.get(kind, kind)}" for kind, count in last)


def families(
    steps: Sequence[Step], shown: Iterable[Step], own_notes: Callable[[Step], Hashable]
) -> dict[JobKey, Family]:
    """Return job → family, for the shown steps of matrices with more than FEW lines.

    Args:
        steps: all steps of the plan.
        own_notes: the notes of a step that are not shown elsewhere.
    """
    wanted: dict[tuple[str, str], list[Step]] = {}
    for step in shown:
        if (family := family_of(step)) is not None:
            wanted.setdefault(family, []).append(step)
    large = {where: members for where, members in wanted.items() if len(members) > FEW}
    counts: dict[tuple[str, str], Counter[str]] = {where: Counter() for where in large}
    for step in steps:
        if (family := family_of(step)) is not None and family in large:
            counts[family][step.kind] += 1
    return {
        step.key: made
        for where, members in large.items()
        for made in (_family(where[1], members, counts[where], own_notes),)
        for step in members
    }


def _family(
    name: str, members: Sequence[Step], counts: Mapping[str, int], own_notes: Callable[[Step], Hashable]
) -> Family:
    alike: dict[Hashable, list[Step]] = {}
    alone = []
    for step in members:
        if step.stops or not step.starts:
            alone.append(step)
        else:
            changes = tuple((change.op, field(change.path)) for change in step.changes)
            codes = tuple(reason.code for reason in step.reasons)
            alike.setdefault(
                (step.kind, codes, changes, step.waits_for, bool(step.withdraws), own_notes(step)), []
            ).append(step)
    return Family(
        name=name, counts=counts, alike=list(alike.values()), alone=alone[:FEW], further=alone[FEW:]
    )


def family_of(step: Step) -> tuple[str, str] | None:
    """Return the session and the matrix of a job; None for a job outside of one."""
    matrix = step.launch.matrix if step.launch is not None else ""
    return (step.key.session, matrix) if matrix else None


def folded_rows(
    shown: Iterable[tuple[Step, int]], folded: Mapping[JobKey, Family], name: Callable[[Step], str]
) -> Iterator[tuple[Step | Family | str, str]]:
    """Yield (content, label) of each line. The content is a step, a family, for its title, or a text.

    Only steps have a label, else it is "".

    Args:
        shown: the steps with their depths.
        folded: as `families` returns it.
    """
    seen = set()
    for step, depth in shown:
        family = folded.get(step.key)
        if family is None:
            yield step, BELOW * depth + name(step)
        elif id(family) not in seen:
            seen.add(id(family))
            below = BELOW * (depth + 1)
            yield family, ""
            yield from ((group[0], below + named([name(each) for each in group])) for group in family.alike)
            yield from ((each, below + name(each)) for each in family.alone)
            if family.further:
                yield f"and more: {in_words(Counter(each.kind for each in family.further))}", ""


def action(step: Step) -> str:
    """`create, after prepare`; a job that a reason already names is not repeated."""
    known = {reason.detail.partition(" ")[0] for reason in step.reasons if reason.code == "needs_changed"}
    others = sorted((job for job in step.after if job not in known), key=natural)
    return f"{step.kind}, after {listing(others)}" if others else step.kind


def namer(plan: Plan) -> Callable[[Step], str]:
    """Return a function that names steps: by job, with project and target if the plan has several."""
    in_full = are_of_several_sessions(step.key for step in plan.steps)
    return lambda step: str(step.key) if in_full else step.key.job


_MOST_NAMED = 3
"""The most jobs that a remedy names, each with its own option."""


def edited_lines(steps: Sequence[Step], plan: Sequence[Step], name: Callable[[Step], str]) -> Iterator[str]:
    """Yield lines about the edited jobs `steps`: one for all jobs with the same files or of one matrix."""
    for group in _groups(steps):
        first = group[0]
        files = some_of(sorted({path for step in group for path in step.edited}))
        one = len(group) == 1
        what = ran(first.latest) if first.latest is not None else "what ran"
        who = f"{name(first)}  unchanged" if one else f"{plural(len(group), 'job')} unchanged"
        line = f"{who}, already succeeded; {'differs' if one else 'differ'} from {what}: {files} "
        line += f"(to run {'it' if one else 'them'} again: {_rerun(group, plan)}; always: inputs)"
        yield line if one else f"{line}: {listing([name(step) for step in group])}"


def _groups(steps: Sequence[Step]) -> list[list[Step]]:
    """Group the steps by commit and files; the steps of one matrix are together whatever their files."""
    found: dict[tuple[str, Collection[str]], list[Step]] = {}
    for step in steps:
        matrix = step.launch.matrix if step.launch is not None else ""
        shared: Collection[str] = matrix if matrix else step.edited
        commit = step.latest.commit if step.latest is not None else ""
        found.setdefault((commit, shared), []).append(step)
    return list(found.values())


def _rerun(group: Sequence[Step], plan: Sequence[Step]) -> str:
    """Return the options that run all jobs of the group again."""
    matrices = {step.launch.matrix if step.launch is not None else "" for step in group}
    [matrix] = matrices if len(matrices) == 1 else [""]
    members = [step for step in plan if step.launch is not None and step.launch.matrix == matrix]
    if matrix and len(group) > 1 and len(members) == len(group):
        return f"--rerun {matrix}"
    if len(group) > _MOST_NAMED:
        return f"--rerun {group[0].key.job} and so on"
    return " ".join(f"--rerun {step.key.job}" for step in group)


_LEAST_CORE_HOURS = 0.1
"""The fewest core-hours that are shown."""


def about(estimate: Estimate) -> str:
    """`about 2h00m (1h40m to 2h20m), 16 GPU-hours (13 to 19)`; core-hours for a job without GPUs."""
    took = estimate.duration_s
    bounds = f"({duration(took.low)} to {duration(took.high)})"
    return ", ".join([f"about {duration(took.median)} {bounds}", *_hours(estimate)[:1]])


def by_attempts(estimate: Estimate) -> str:
    """`by 5 attempts`, `by 5 attempts of other documents`."""
    others = "" if estimate.same_document else " of other documents"
    return f"by {plural(estimate.attempts, 'attempt')}{others}"


def in_total(total: PlanTotal) -> str:
    """`about 16 GPU-hours (13 to 19), 120 core-hours (90 to 150)`; "" where the total is zero or unknown."""
    hours = _hours(total)
    if not hours:
        return ""
    unknown = (
        f", without {plural(total.unknown, 'job')} of which too little is known" if total.unknown else ""
    )
    return f"about {', '.join(hours)}{unknown}"


def _hours(cost: Estimate | PlanTotal) -> list[str]:
    shown = {"gpu_hours": cost.gpu_hours, "core_hours": cost.core_hours}
    if cost.core_hours is not None and cost.core_hours.median < _LEAST_CORE_HOURS:
        shown["core_hours"] = None
    return [
        f"{in_hours(part.median)} {UNITS[unit]} ({in_hours(part.low)} to {in_hours(part.high)})"
        for unit, part in shown.items()
        if part
    ]


def sent_to(receivers: Sequence[Destination]) -> str:
    """Return the sentence that names the receivers of outcomes; "" without receivers."""
    return f"Outcomes are sent to {listing([str(each) for each in receivers])}" if receivers else ""
