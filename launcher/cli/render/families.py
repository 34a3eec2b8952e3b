"""Fold the many jobs of one matrix into few lines. Steps that stop, are held or differ are still shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from launcher.dataclass import dataclass
from launcher.folds import named
from launcher.plan.notation import field
from launcher.plan.step import Step
from launcher.specs.launch import JobKey
from launcher.text import FEW

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
        alone: the steps that stop something or are held; each has a line of its own.
        further: steps beyond the first FEW of `alone`, which are only counted.
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
        """The steps that plans show, quiet ones left out."""
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
        if family_of(step)[1]:
            wanted.setdefault(family_of(step), []).append(step)
    large = {where: members for where, members in wanted.items() if len(members) > FEW}
    counts: dict[tuple[str, str], Counter[str]] = {where: Counter() for where in large}
    for step in steps:
        if family_of(step) in counts:
            counts[family_of(step)][step.kind] += 1
    return {
        step.key: family
        for where, members in large.items()
        for family in (_family(where[1], members, counts[where], own_notes),)
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


def family_of(step: Step) -> tuple[str, str]:
    """Return the session and the matrix of a job; the matrix is "" for a job outside of one."""
    return step.key.session, step.launch.matrix if step.launch is not None else ""


def folded_rows(
    shown: Iterable[tuple[Step, int]], folded: Mapping[JobKey, Family], name: Callable[[Step], str]
) -> Iterator[tuple[Step | Family | str, str]]:
    """Yield the content of each line (a step, a family for its title, or a text) and the label of a step.

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
