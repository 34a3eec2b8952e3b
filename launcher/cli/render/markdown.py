"""Render a plan as Markdown, for a comment on a pull request."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from launcher.cli.render.document import flat
from launcher.cli.render.plan_lines import (
    Family,
    about,
    action,
    diff_lines,
    edited_lines,
    families,
    folded_rows,
    in_total,
    namer,
    sent_to,
)
from launcher.cli.render.values import asked_for, text_of
from launcher.plan.model import Plan, overruns, total_of
from launcher.plan.step import Step
from launcher.text import fenced, plural, unlinked

MAX_BYTES = 60_000  # GitHub refuses comments beyond 65,536 characters

_COLUMNS = 100
"""The width in columns at which the diff cuts long texts."""

_TABLE_HEAD = ("| | Job | Action | Engine | Asks for | Why |", "|---|---|---|---|---|---|")
_WITH_ESTIMATES = ("| | Job | Action | Engine | Asks for | Takes | Why |", "|---|---|---|---|---|---|---|")


def plan_markdown(
    plan: Plan, *, max_bytes: int = MAX_BYTES, in_full: bool = False, title: str = "", remark: str = ""
) -> str:
    """Return the plan in at most `max_bytes` bytes of UTF-8; lines that do not fit are dropped from the end.

    The hidden first line identifies the projects and targets, so that a bot can find and replace its comment.

    Args:
        in_full: every job has a row; else the jobs of a large matrix share some.
        title: the beginning of the heading.
        remark: Markdown for a line below the verdict.
    """
    steps = [step for step in plan.steps if step.kind != "keep" or step.waits_for]
    name = namer(plan)
    folded = {} if in_full else families(plan.steps, steps, lambda step: ())
    has_estimates = bool(total_of(steps).jobs)
    blank = "| " if has_estimates else ""
    rows, shown = [], []
    for shows, label in folded_rows(((step, 0) for step in steps), folded, name):
        if isinstance(shows, Step):
            rows.append(_row(shows, label.strip(), has_estimates, is_folded=shows.key in folded))
            shown.append((shows, label.strip()))
        else:
            rows.append(_row_of_several(shows, blank))
    for key, guard in ((orphan.key, orphan.guard) for orphan in plan.orphans):
        engine, what = cell(guard.scheduler), cell(str(guard))
        rows.append(f"| `?` | {cell(str(key))} | orphan | {engine} | | {blank}{what} |")
    details = [_details(step, label) for step, label in shown if _body(step)]

    def page(left_out: int) -> str:
        kept_details = details[: max(0, len(details) - left_out)]
        kept_rows = rows[: len(rows) - max(0, left_out - len(details))]
        remarks = [remark, f"Shortened: {plural(left_out, 'part')} left out at the end." if left_out else ""]
        return _page(plan, title, kept_rows, kept_details, remarks)

    if len(text := page(0).encode()) <= max_bytes:
        return text.decode()
    most = len(details) + len(rows)
    fitting = bisect_left(range(1, most), True, key=lambda left: len(page(left).encode()) <= max_bytes)
    return page(fitting + 1)


def _page(plan: Plan, title: str, rows: Sequence[str], details: Sequence[str], remarks: Sequence[str]) -> str:
    keys = [*(step.key for step in plan.steps), *(orphan.key for orphan in plan.orphans)]
    sessions = sorted({key.session for key in keys})
    total = in_total(total_of(plan.steps))
    verdict = f"{_verdict(plan)}; {total}" if total else _verdict(plan)
    lines = [f"<!-- launcher plan: {', '.join(sessions)} -->", f"### {title}{verdict}", ""]
    lines += [line for each in filter(None, remarks) for line in (f"> {each}", "")]
    for each in overruns(plan.steps):
        lines += [f"> **Blocked**: {plain_html(str(each))}. To go on, {plain_html(each.remedy)}.", ""]
    if rows:
        lines += [*(_WITH_ESTIMATES if total_of(plan.steps).jobs else _TABLE_HEAD), *rows, ""]
    edited = edited_lines([step for step in plan.steps if step.is_edited], plan.steps, namer(plan))
    lines += [line for text in edited for line in (f"- {cell(text)}", "")]
    lines += details
    lines += [line for each in plan.shared for line in (f"- {plain_html(each)}", "")]
    if plan.turns:
        lines += [f"Turns: {plain_html('; '.join(plan.turns))}", ""]
    if receivers := sent_to(plan.receivers):
        lines += [plain_html(receivers), ""]
    facts = [] if plan.is_empty else [f"Digest `{plan.plan_digest}`"]
    facts += [f"commit `{commit}`" for commit in sorted(set(plan.commits.values())) if commit]
    lines += [" · ".join(facts)] if facts else []
    return "\n".join(lines).rstrip() + "\n"


def _row(step: Step, name: str, has_estimates: bool, *, is_folded: bool) -> str:
    words = cell(action(step))
    words = words.replace(step.kind, f"**{step.kind}**", 1) if step.destructive else words
    engine = step.launch.scheduler if step.launch is not None else step.guard.scheduler
    asks = asked_for(step.document)
    known = step.estimate if step.starts and not is_folded else None
    takes = [about(known) if known is not None else ""] if has_estimates else []
    cells = [f"`{step.mark}`", cell(name), words, cell(engine), cell(asks), *takes, cell(step.why_in_brief)]
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def _row_of_several(shows: Family | str, blank: str) -> str:
    """A row for the jobs of a matrix, or for text. `blank`: its cell of a table with estimates."""
    title, summary = (shows.title, shows.summary) if isinstance(shows, Family) else ("", shows)
    takes = in_total(total_of(shows.members)) if isinstance(shows, Family) else ""
    cost = f"| {takes} " if takes else blank
    return f"| | {cell(title)} | {cell(summary)} | | {cost}| |".replace("|  |", "| |")


def _verdict(plan: Plan) -> str:
    """`Starts 2 jobs, stops 1 app, 3 already pending on main`; else the counts."""
    effective = [step for step in plan.steps if step.has_effects]
    if not any(step.attribution for step in effective):
        return plan.summary()
    pending = [step for step in effective if step.attribution.startswith("already pending")]
    own = [step for step in effective if step not in pending]
    starts, stops = sum(step.starts for step in own), sum(len(step.stops) for step in own)
    withdraws = sum(len(step.withdraws) for step in own if not step.starts)
    words = [
        f"starts {plural(starts, 'job')}" if starts else "",
        f"stops {plural(stops, 'app')}" if stops else "",
        f"withdraws {plural(withdraws, 'waiting app')}" if withdraws else "",
        f"{len(pending):,} {pending[0].attribution}" if pending else "",
    ]
    return ", ".join(filter(None, words)).capitalize()


def _body(step: Step) -> list[str]:
    """Return the lines of the diff: the changes, or the whole document if no attempt came before."""
    lines = [line for change in step.changes for line in diff_lines(change, _COLUMNS)]
    if step.starts and not step.guard.attempt:
        lines += [f"+ {line}" for line in flat(step.document)]
    if not step.has_effects:
        return lines
    lines += [f"- stops {stop.app_id} ({stop.state})" for stop in step.stops]
    return lines + [f"- withdraws {each.app_id} ({each.state})" for each in step.withdraws]


def _details(step: Step, name: str) -> str:
    summary = plain_html(f"{name}: {step.kind}")
    body = fenced("\n".join(map(text_of, _body(step))), "diff")
    return "\n".join([f"<details><summary>{summary}</summary>", "", body, "", "</details>", ""])


def cell(text: str) -> str:
    """Escape text so that it stays in its cell and contains no markup, links or pictures."""
    plain = plain_html(" ".join(text.split())).replace("\\", "\\\\")
    return plain.replace("|", "\\|").replace("`", "\\`").replace("*", "\\*").replace("](", "]\\(")


def plain_html(text: str) -> str:
    return unlinked(text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))
