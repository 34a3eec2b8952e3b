"""`launcher explain`: explain a code of a diagnostic or a plan, with examples and the remedy."""

from __future__ import annotations

from collections.abc import Mapping
from json import dumps
from textwrap import fill, indent
from typing import Any

from launcher.cli.console import Console
from launcher.cli.render.tables import table
from launcher.errors import UsageError
from launcher.jobfile.diagnostics.diagnostic import CODES, WARNINGS
from launcher.jobfile.diagnostics.explain import EXPLANATIONS, REASON_EXPLANATIONS
from launcher.plan.reasons import REASONS
from launcher.text import did_you_mean, paint

USAGE = "explain [CODE] [OPTIONS]"
HELP = """\
Explain the code of a message. For a diagnostic such as `error[unknown-field]`:
why it is a problem, with a wrong and a corrected job file. For a reason in a
plan's JSON such as `spec_changed`: its cause, an example and what to do.
Without CODE, list all codes."""
EXAMPLES = """\
  launcher explain unknown-field
  launcher explain                 list all codes"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("code", metavar="CODE", nargs="?", help="a code, such as unknown-field")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: Any, console: Console) -> int:
    codes = _codes()
    if args.code is None:
        _print(codes, console) if not args.json else _dump([*map(_document, codes, codes.values())], console)
        return 0
    code = _plain(args.code)
    if code not in codes:
        hint = did_you_mean(code, codes) or "`launcher explain` lists the codes"
        raise UsageError(f"unknown code `{args.code}`", hint=hint)
    if args.json:
        _dump(_document(code, codes[code]), console)
    else:
        console.print(_text(code, codes[code], console), end="")
    return 0


def _plain(word: str) -> str:
    """Extract the code from text pasted from a message, such as `error[unknown-field]:`."""
    return word.partition("[")[2].partition("]")[0] if "[" in word else word


def _codes() -> dict[str, str]:
    """Code → summary: codes of diagnostics, then reasons of plans."""
    codes = dict(sorted(CODES.items()))
    return codes | {str(code): text for code, text in REASONS.items()}


def _kind(code: str) -> str:
    return "warning" if code in WARNINGS else "error" if code in CODES else "reason"


def _document(code: str, summary: str) -> dict[str, Any]:
    document: dict[str, Any] = {"code": code, "kind": _kind(code), "summary": summary}
    if code in EXPLANATIONS:
        found = EXPLANATIONS[code]
        document |= {"why": found.why, "wrong": str(found.wrong), "right": str(found.right)}
    else:
        reason = REASON_EXPLANATIONS[code]
        document |= {"why": reason.why, "example": str(reason.example), "remedy": reason.remedy}
        document["typed"] = list(reason.typed)
    return document


def _dump(document: Any, console: Console) -> None:
    console.print(dumps(document, indent=2, ensure_ascii=False))


def _print(codes: Mapping[str, str], console: Console) -> None:
    rows = [[code, _kind(code), summary] for code, summary in codes.items()]
    console.print(table(["CODE", "KIND", "MEANING"], rows, color=console.color))


def _text(code: str, summary: str, console: Console) -> str:
    """The explanation of one code."""
    styles = {"error": "bold red", "warning": "bold yellow", "reason": "bold cyan"}
    head = paint(f"{_kind(code)}[{code}]", styles[_kind(code)], console.color)
    text = f"{head}: {summary}\n"
    width = min(console.width(), 80)
    if code in EXPLANATIONS:
        found = EXPLANATIONS[code]
        parts = [("Wrong", "red", str(found.wrong)), ("Right", "green", str(found.right))]
        text += f"\n{fill(found.why, width)}\n"
    else:
        reason = REASON_EXPLANATIONS[code]
        typed = fill(reason.remedy, width - 4) + "\n\n" + "".join(f"$ {line}\n" for line in reason.typed)
        parts = [("Example", "cyan", str(reason.example)), ("What to do", "green", typed)]
        text += f"\n{fill(reason.why, width)}\n"
    for title, style, part in parts:
        text += f"\n{paint(title + ':', style, console.color)}\n\n{indent(part, '    ')}"
    return text
