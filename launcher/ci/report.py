"""Report how the jobs that a merge started ended: one comment on its pull request, once all have ended.

A comment is written once. An edit would notify no one, and a supervisor has no token that lives for hours: a
scheduled run looks at the commits that were applied and not reported yet.
"""

from __future__ import annotations

import html
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any, Final, NamedTuple

from launcher.ci.approvals import ApprovalScope, Forge, names, plain
from launcher.ci.forge import MOST_CHARACTERS, Check, CheckRun, ForgeError
from launcher.ci.record import AppliedJobs, applied_in
from launcher.inventory.outputs import ResultRow, shown
from launcher.text import fenced, fold, named, natural, plural

_ALWAYS: Final = 50
"""How many commits are searched even where all before them are reported: a target may be applied late."""
_ALL_BEFORE: Final = " and all before"
"""Ends the external id of a report, on a commit before which nothing is left to report."""
_MOST_RESULTS: Final = 20
_MOST_OF_TABLE: Final = MOST_CHARACTERS // 2
_BAD: Final = frozenset({"failed", "lost", "cancelled", "skipped"})


class EndedJob(NamedTuple):
    """The state of a job that a merge started.

    Attributes:
        matrix: the name of its matrix; "" for a job outside of a matrix.
        state: the state of its attempt; "unknown" where the attempt is not known.
        took: as text, such as `2h10m`; "" before its end.
        asked: the resources of the job file, as text.
        message: the root cause.
        output: the last lines of a failed job; "" where they must not be shown.
        results: the numbers in its metrics.json, each with that of the previous success.
    """

    job: str
    attempt: int
    state: str
    has_ended: bool
    took: str = ""
    asked: str = ""
    message: str = ""
    output: str = ""
    results: Sequence[ResultRow] = ()
    matrix: str = ""

    @property
    def name(self) -> str:
        """`train@2`."""
        return f"{plain(self.job)}@{self.attempt}"


Look = Callable[[Sequence[Mapping[str, Any]]], Sequence[EndedJob]]
"""Returns the states of the jobs that a check run names."""


def report(
    forge: Forge, commits: Sequence[str], look: Look, refused: Callable[[ForgeError], None]
) -> list[str]:
    """Write the comments that are due; returns a line for each.

    Args:
        refused: called if the token may not comment; the line is still returned.
    """
    lines: list[str] = []
    left: set[str] = set()
    for sha, checks in reversed([*_searched(forge, commits)]):
        for scope, applies in _unreported(checks).items():
            found = [
                {number: look(jobs) for number, jobs in applied.items() if jobs} for _, applied in applies
            ]
            try:
                for order, ((check, _), due) in enumerate(zip(applies, found, strict=True)):
                    lines += _tell(forge, scope, due, check, _mark(scope, sha, order))
            except ForgeError as error:
                if not error.is_forbidden:
                    raise
                refused(error)
                left.add(sha)
                lines += [line for due in found for line in _lines(forge, scope, due)]
                continue
            if not all(_is_due(jobs) for due in found for jobs in due.values()):
                left.add(sha)
                continue
            title = "reported" if any(found) else "nothing was started"
            mark = f"launcher-report {scope}{_ALL_BEFORE if left <= {sha} else ''}"
            forge.add_check(Check(f"launcher report {scope}", "success", title, title, "", mark), sha=sha)
    return lines


def _searched(forge: Forge, commits: Sequence[str]) -> Iterator[tuple[str, Sequence[CheckRun]]]:
    """Yield the commits with their check runs, up to one before which all is reported."""
    for at, sha in enumerate(commits):
        checks = forge.check_runs(sha)
        yield sha, checks
        if at >= _ALWAYS and any(check.external_id.endswith(_ALL_BEFORE) for check in checks):
            return


def _unreported(checks: Sequence[CheckRun]) -> dict[ApprovalScope, list[tuple[CheckRun, AppliedJobs]]]:
    """Return the applies of a commit whose report is due: those that started jobs, the oldest first.

    Each has the jobs that no earlier one has, as a record may be there twice. A report is due again after a
    later apply. A scope whose applies have started nothing has an empty list.
    """
    newest = {check.name: check.id for check in reversed(checks)}
    found: dict[ApprovalScope, list[tuple[CheckRun, AppliedJobs]]] = {}
    for check in reversed(checks):
        scope, applied = applied_in(check)
        if scope is None or newest.get(f"launcher report {scope}", -1) > newest[check.name]:
            continue
        applies = found.setdefault(scope, [])
        known = {each["app_id"] for _, earlier in applies for jobs in earlier.values() for each in jobs}
        new = {of: [each for each in jobs if each["app_id"] not in known] for of, jobs in applied.items()}
        if any(new.values()):
            applies.append((check, new))
    return found


def _mark(scope: ApprovalScope, sha: str, order: int) -> str:
    """Return the hidden first line of a comment: of the first, second or later one on a commit's jobs."""
    return f"<!-- launcher report {scope} {sha}{f' {order + 1}' if order else ''} -->"


def _is_due(jobs: Sequence[EndedJob]) -> bool:
    """Whether all jobs have ended, or one has failed."""
    return all(job.has_ended for job in jobs) or any(job.state == "failed" for job in jobs)


def _tell(
    forge: Forge, scope: ApprovalScope, due: Mapping[str, Sequence[EndedJob]], check: CheckRun, mark: str
) -> list[str]:
    """Write the missing comments that are due; returns a line for each."""
    new = {}
    for number, jobs in due.items():
        if not number or not _is_due(jobs):
            continue
        if not any(comment.body.startswith(mark) for comment in forge.comments(int(number))):
            forge.add_comment(int(number), comment_text(mark, check.sha, jobs, check.url, scope.title))
            new[number] = jobs
    return _lines(forge, scope, new)


def _lines(forge: Forge, scope: ApprovalScope, ended: Mapping[str, Sequence[EndedJob]]) -> list[str]:
    sign = forge.words.sign
    return [f"{sign}{number} {scope}: {_verdict(jobs)}" for number, jobs in ended.items() if number]


def comment_text(mark: str, sha: str, jobs: Sequence[EndedJob], url: str = "", title: str = "") -> str:
    """The comment in Markdown: the verdict first, a row for each job, the bad ones first.

    The jobs of a large matrix share rows, except the first failed ones.
    """
    ordered = sorted(jobs, key=lambda job: (job.state not in _BAD, natural(job.job)))
    groups = fold(
        ordered, lambda job: job.matrix, lambda job: (job.state, job.asked), lambda job: job.state in _BAD
    )
    rows = [_row(group) for group in groups]
    shown = bisect_right([*accumulate(len(row) + 1 for row in rows)], _MOST_OF_TABLE)
    left = sum(map(len, groups[shown:]))
    more = [f"\n{plural(left, 'more job')}"] if left else []
    link = f" ([apply]({url}))" if url.startswith("https://") else ""
    head = [mark, f"### {title}{_verdict(jobs)}", "", f"Jobs of the merge `{sha[:7]}`{link}.", ""]
    head += ["| Job | State | Took | Asked for | Why |", "|---|---|---|---|---|"]
    lines = [*head, *rows[:shown], *more]
    first, others = [group[0] for group in groups], [job for group in groups for job in group[1:]]
    parts = chain(map(_results, first), map(_last_lines, first), map(_results, others))
    room = MOST_CHARACTERS - sum(map(len, lines)) - len(lines)
    for part in parts:  # adds whole parts as long as they fit
        if part and (room := room - len(part) - 1) > 0:
            lines.append(part)
    return "\n".join(lines) + "\n"


def _row(jobs: Sequence[EndedJob]) -> str:
    """Return the row that some jobs share, without the times and reasons in which they differ."""
    took, why = ({getattr(job, name) for job in jobs} for name in ("took", "message"))
    name, first = named([job.name for job in jobs]), jobs[0]
    cells = [name, first.state, first.took if len(took) == 1 else "", plain(first.asked)]
    cells = [cell or "-" for cell in cells]
    return f"| {' | '.join(cells)} | {plain(first.message)[:500] if len(why) == 1 else ''} |"


def _results(job: EndedJob) -> str:
    """Return a table of the job's results; "" without any."""
    if not job.results:
        return ""
    rows = [
        f"| {plain(each.name)} | {shown(each.old)} | {shown(each.new)} | {each.change} |"
        for each in job.results[:_MOST_RESULTS]
    ]
    left = len(job.results) - len(rows)
    head = [f"\n**Results of {job.name}**\n", "| | Before | Now | Change |", "|---|--:|--:|--:|"]
    return "\n".join([*head, *rows, *([f"\n{left} more"] if left else [])])


def _last_lines(job: EndedJob) -> str:
    """Return the last lines of the job's output in a folded block; "" without any."""
    if not job.output:
        return ""
    return (
        f"\n<details><summary>Last lines of {html.escape(job.job)}@{job.attempt}</summary>\n\n"
        f"{fenced(job.output, 'text')}\n\n</details>"
    )


def _verdict(jobs: Sequence[EndedJob]) -> str:
    """`1 failed, 2 succeeded`."""
    states = [job.state for job in jobs]
    ordered = sorted(set(states), key=lambda state: (state not in _BAD, state))
    return names([f"{states.count(state):,} {state}" for state in ordered]) or "nothing was started"
