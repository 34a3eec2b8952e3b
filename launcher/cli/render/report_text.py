"""The words of a report, for its page and for Markdown; and its JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.cli.render.apps import app_json, attempt_json, in_order, ran_for
from launcher.cli.render.document import flat
from launcher.cli.render.markdown import MAX_BYTES, cell, plain_html
from launcher.cli.render.plan_lines import what_runs
from launcher.cli.render.values import asked_and_used, asked_for, duration, iso, timestamp
from launcher.holding.use import Use
from launcher.inventory.outputs import rerun_command, shown
from launcher.inventory.report import Failure, Report, ReportedApp, RoleUse
from launcher.inventory.timeline import Phase
from launcher.text import FEW, fenced, fold, listing, named, plural

_BAD = ("failed", "lost")


def title_of(report: Report) -> str:
    """`train, evaluate`, or `Jobs since 2026-11-19 12:00`."""
    choice = report.choice
    if words := [*choice.names, *choice.select]:
        return listing(words, 4)
    since = f" since {timestamp(choice.since)[:16]}" if choice.since else ""
    return (f"Project {choice.project}" if choice.project else "All jobs") + since


def scope_of(report: Report) -> str:
    """Return `12 attempts of 5 jobs, 2026-11-19 12:00:00 to …`."""
    total = sum(report.counts.values())
    moments = [each.app.created_at for each in report.entries if each.app.created_at]
    jobs = plural(len(report.latest), "job")
    first = f", the oldest one here is from {timestamp(min(moments))}" if moments else ""
    more = f" of {jobs}" if not report.folded else ""
    return f"{plural(total, 'attempt')}{more}{first}; made {timestamp(report.made_at)}"


def counted(folded: Mapping[str, int]) -> str:
    """Return `97,000 older attempts are counted only: 95,000 succeeded, 2,000 failed`; "" for none."""
    if not folded:
        return ""
    total = sum(folded.values())
    words = f"{plural(total, 'older attempt is', 'older attempts are')} only counted: {in_order(folded)}"
    return f"{words}. A larger --max-bytes or a narrower choice shows more."


def headline(entry: ReportedApp) -> str:
    """The failure of an app in a sentence, without secrets."""
    return entry.app.message or f"{entry.app.state}, for a reason that is not on record"


def facts_of(entry: ReportedApp) -> dict[str, str]:
    """Return name → text of the facts that explain a failure."""
    roles = entry.document.get("roles", ())
    shown = [f"{role['name']}: {what_runs(role)}" if len(roles) > 1 else what_runs(role) for role in roles]
    attempt = entry.attempt
    # `port = 8123, timeout_s = 2`
    probes = {
        role["name"]: ", ".join(line.removeprefix("ready.") for line in flat({"ready": role["ready"]}))
        for role in roles
        if role.get("ready")
    }
    return {
        "Why it ran": entry.why,
        "Command": listing(shown, 3),
        "Asked for": asked_for(entry.document),
        "Ready when": "; ".join(f"{name}: {probe}" for name, probe in probes.items()),
        "Restarts": str(entry.app.num_restarts or ""),
        "File": " ".join(filter(None, (attempt.path, attempt.commit and f"at {attempt.commit[:12]}")))
        if attempt
        else "",
        "App": entry.app.handle,
    }


def commands(entry: ReportedApp) -> list[str]:
    """Return the commands to run next."""
    name = entry.app.handle if entry.attempt is None else entry.app.app_id
    if entry.app.is_held:
        return [f"launcher status {name}", f"launcher cancel {name}"]
    again = [rerun_command(entry.attempt)] if entry.attempt is not None and not entry.app.is_live else []
    return [*([] if entry.unread else [f"launcher logs {name}"]), *again]


def ran_in(use: Use) -> str:
    """`2h10m in 3 runs`."""
    return duration(use.wall_s) + (f" in {use.runs} runs" if use.runs > 1 else "")


def folded_uses(report: Report) -> list[tuple[str, RoleUse]]:
    """Return name and use of each role; many jobs of one file are represented by the job that used most."""
    groups = fold(report.uses, lambda use: _file(use.entry), lambda use: use.role, lambda use: False)
    highest = [max(group, key=lambda use: (use.used.memory, use.used.cores)) for group in groups]
    return [
        (f"highest of {len(group):,}: {use.entry.name}" if len(group) > 1 else use.entry.name, use)
        for group, use in zip(groups, highest, strict=True)
    ]


def _file(entry: ReportedApp) -> tuple[str, str] | None:
    """The job file of an attempt."""
    return (entry.attempt.origin, entry.attempt.path) if entry.attempt is not None else None


# -- Markdown ------------------------------------------------------------------------------------------------


def report_markdown(report: Report, *, max_bytes: int = MAX_BYTES) -> str:
    """The report in short, in at most `max_bytes` bytes of UTF-8: for a pull request, or a summary of CI."""
    pieces = list(_pieces(report))
    text, room, note = "", max_bytes - 100, ""
    for at, piece in enumerate(pieces):
        room -= len(piece.encode(errors="backslashreplace"))
        if room < 0:
            note = f"> Shortened: {plural(len(pieces) - at, 'part')} left out at the end.\n"
            break
        text += piece
    return text + note


def _pieces(report: Report) -> Iterator[str]:
    yield f"### {plain_html(title_of(report))}: {in_order(report.counts) or 'nothing ran'}\n\n"
    if report.folded:
        yield f"> {plain_html(counted(report.folded))}\n\n"
    for failure in report.failures:
        if not failure.since_then:
            yield _failure(failure)
    for wait in report.waits:
        yield f"- **{cell(wait.entry.name)}** {cell(wait.text)}\n"
    yield "\n" if report.waits else ""
    yield "| Attempt | State | Ran | Why it ran | Commit |\n|---|---|---|---|---|\n" if report.entries else ""
    lines = fold(report.entries, _file, lambda each: each.app.state, lambda each: each.app.state in _BAD)
    for entry, *more in lines:
        name = named([entry.name, *(each.name for each in more)])
        commit = entry.attempt.commit[:7] if entry.attempt is not None else ""
        ran = "" if more else ran_for(entry.app, report.made_at)
        yield f"| {' | '.join(map(cell, (name, entry.app.state, ran, entry.why, commit)))} |\n"
    if report.results:
        yield "\n| Job | Metric | Before | Latest | Change |\n|---|---|--:|--:|--:|\n"
    for each in report.results:
        for result in each.rows:
            numbers = shown(result.old), shown(result.new), result.change
            texts = (str(each.entry.app.job), result.name, *numbers)
            yield f"| {' | '.join(map(cell, texts))} |\n"
    if report.uses:
        yield "\n| Attempt | Role | Cores asked | used | Memory asked | used | Ran |\n"
        yield "|---|---|--:|--:|--:|--:|--:|\n"
    for name, use in folded_uses(report):
        row = (name, use.role, *asked_and_used(use.asked, use.used)[:4], ran_in(use.used))
        yield f"| {' | '.join(map(cell, row))} |\n"


def _failure(failure: Failure) -> str:
    entry = failure.entries[0]
    lines = [f"**{cell(entry.name)}** {entry.app.state}: {cell(headline(entry))}", ""]
    if len(failure.entries) > 1:
        others = listing([each.name for each in failure.entries[1:]], FEW)
        lines += [f"Failed alike: {cell(others)}", ""]
    if entry.lines:
        where = f"the last lines of {entry.tail_of}"
        lines += [
            f"<details><summary>{plain_html(where)}</summary>",
            "",
            fenced("\n".join(entry.lines), "text"),
        ]
        lines += ["", "</details>", ""]
    return "\n".join(lines) + "\n"


# -- JSON ----------------------------------------------------------------------------------------------------


def report_json(report: Report) -> dict[str, Any]:
    """Return the report in JSON, with the field names of `history --json` and `status --json`."""
    choice = report.choice
    return {
        "made_at": iso(report.made_at),
        "since": iso(choice.since),
        "counts": dict(report.counts),
        "folded": dict(report.folded),
        "attempts": [_entry_json(each) for each in report.entries],
        "failures": list(map(_failure_json, report.failures)),
        "waits": [{"app": each.entry.app.handle, "for": each.text} for each in report.waits],
        "use": [
            {
                "app": each.entry.app.handle,
                "role": each.role,
                "num_replicas": each.replicas,
                "asked": dict(each.asked),
                "used": each.used.to_json(),
            }
            for each in report.uses
        ],
        "results": [
            {
                "app": each.entry.app.handle,
                "before": each.before or None,
                "results": [row.to_json() for row in each.rows],
            }
            for each in report.results
        ],
        "needs": [
            {"project": key[0], "target": key[1], "job": key[2], "needs": [need[2] for need in needs]}
            for key, needs in report.needs.items()
            if needs
        ],
    }


def _failure_json(failure: Failure) -> dict[str, Any]:
    entry = failure.entries[0]
    return {
        "apps": [each.app.handle for each in failure.entries],
        "message": headline(entry),
        "since_then": failure.since_then or None,
        "replica": entry.tail_of or None,
        "last_lines": list(entry.lines),
        "error": list(entry.stack),
        "unread": entry.unread or None,
        "not_started": list(failure.skipped),
    }


def _entry_json(entry: ReportedApp) -> dict[str, Any]:
    of_attempt = attempt_json(entry.attempt) if entry.attempt is not None else {}
    return {
        **app_json(entry.app),
        **({**of_attempt, "state": app_json(entry.app)["state"]} if of_attempt else {}),
        "why": entry.why or None,
        "phases": list(map(_span_json, entry.timeline.phases)),
        "replicas": [
            {"role": role, "replica": k, "spans": list(map(_span_json, spans))}
            for (role, k), spans in entry.timeline.replicas.items()
        ],
    }


def _span_json(span: Phase) -> dict[str, Any]:
    return {
        "kind": span.kind,
        "start": iso(span.start),
        "end": iso(span.end),
        "state": span.state or None,
        "text": span.text or None,
    }
