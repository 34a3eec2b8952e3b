"""Say which unchanged jobs ran other files than the checkout has now: one line for each group of jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from launcher.cli.render.values import listing
from launcher.plan.step import Step
from launcher.plan.why import ran, some_files
from launcher.text import plural

_MOST_NAMED = 3
"""The most jobs that a remedy names, each with its own option."""


def edited_lines(steps: Sequence[Step], plan: Sequence[Step], name: Callable[[Step], str]) -> Iterator[str]:
    """The lines about the edited jobs `steps` of a plan: one for all with the same files or of one matrix."""
    for group in _groups(steps):
        first = group[0]
        files = some_files(sorted({path for step in group for path in step.edited}))
        one = len(group) == 1
        what = ran(first.latest) if first.latest is not None else "what ran"
        who = f"{name(first)}  unchanged" if one else f"{plural(len(group), 'job')} unchanged"
        line = f"{who}, already succeeded; {'differs' if one else 'differ'} from {what}: {files} "
        line += f"(to run {'it' if one else 'them'} again: {_rerun(group, plan)}; always: inputs)"
        yield line if one else f"{line}: {listing([name(step) for step in group])}"


def _groups(steps: Sequence[Step]) -> list[list[Step]]:
    """The steps by commit and by files, those of one matrix together whatever their files."""
    found: dict[tuple[str, Collection[str]], list[Step]] = {}
    for step in steps:
        matrix = step.launch.matrix if step.launch is not None else ""
        about: Collection[str] = matrix if matrix else step.edited
        commit = step.latest.commit if step.latest is not None else ""
        found.setdefault((commit, about), []).append(step)
    return list(found.values())


def _rerun(group: Sequence[Step], plan: Sequence[Step]) -> str:
    """The options that run all of them again."""
    matrices = {step.launch.matrix if step.launch is not None else "" for step in group}
    [matrix] = matrices if len(matrices) == 1 else [""]
    members = [step for step in plan if step.launch is not None and step.launch.matrix == matrix]
    if matrix and len(group) > 1 and len(members) == len(group):
        return f"--rerun {matrix}"
    if len(group) > _MOST_NAMED:
        return f"--rerun {group[0].key.job} and so on"
    return " ".join(f"--rerun {step.key.job}" for step in group)
