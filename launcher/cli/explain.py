"""`launcher explain`: explain a code of a diagnostic or a plan, with examples and the remedy."""

from __future__ import annotations

from json import dumps
from textwrap import fill, indent
from typing import Any

from launcher.cli.console import Console
from launcher.cli.render.values import table
from launcher.errors import UsageError
from launcher.jobfile.diagnostic import CODES, WARNINGS, explanations
from launcher.jobfile.messages.collector import entry
from launcher.jobfile.messages.foreign import meanings
from launcher.plan.step import REASONS
from launcher.text import did_you_mean, paint

USAGE = "explain [CODE] [OPTIONS]"
HELP = """\
Explain the code of a message. For a diagnostic such as `error[unknown-field]`:
why it is a problem, with a wrong and a corrected job file. For a reason in a
plan's JSON such as `spec_changed`: its cause, an example and what to do.
For a word of another tool such as `timeout-minutes`: the field of a job file
that means the same. Without CODE, list all codes."""
EXAMPLES = """\
  launcher explain unknown-field
  launcher explain timeout-minutes
  launcher explain                 list all codes"""

_PLACES = {
    "job": "a job",
    "role": "a role",
    "resource": "`resource` of a role",
    "mount": "a mount",
    "ready": "`ready` of a role",
    "variable": "a variable",
    "need": "a job below `needs`",
}
_TITLES = {"Wrong": "red", "Right": "green", "Example": "cyan", "What to do": "green"}


def add_arguments(parser: Any) -> None:
    parser.add_argument(
        "code", metavar="CODE", nargs="?", help="a code, such as unknown-field, or a word of another tool"
    )
    parser.option("--json", "print JSON")


def run(args: Any, console: Console) -> int:
    # Codes of diagnostics, then reasons of plans.
    codes = dict(sorted(CODES.items())) | {str(code): text for code, text in REASONS.items()}
    if args.code is not None:
        # Text pasted from a message counts too: `error[unknown-field]:`.
        code = args.code.partition("[")[2].partition("]")[0] if "[" in args.code else args.code
        if code not in codes and (answers := _answers(code)):
            console.print(dumps(answers, indent=2, ensure_ascii=False) if args.json else _words(answers))
            return 0
        if code not in codes:
            hint = did_you_mean(code, codes) or "`launcher explain` lists the codes"
            raise UsageError(f"unknown code `{args.code}`", hint=hint)
        if not args.json:
            console.print(_text(code, codes[code], console), end="")
            if answers := _answers(code):
                console.print(f"\n{_words(answers)}")
            return 0
    if args.json:
        found = (
            [_document(*each) for each in codes.items()]
            if args.code is None
            else _document(code, codes[code])
        )
        console.json(found)
    else:
        rows = [[code, _kind(code), summary] for code, summary in codes.items()]
        headings = ["CODE", "KIND", "MEANING"]
        console.print(table(headings, rows, color=console.color, columns=console.columns))
    return 0


def _answers(word: str) -> list[dict[str, Any]]:
    """Return the meanings of a word of another tool."""
    return [
        {"word": word, "mapping": kind, "tools": tools, "example": example, "answer": answer}
        for kind, tools, example, answer in meanings(word)
    ]


def _words(answers: list[dict[str, Any]]) -> str:
    """Return a paragraph for each meaning: where the word is used, and the text to write instead."""
    paragraphs = []
    for each in answers:
        written = f"`{entry(each['word'], each['example'], 'yaml')}`"
        answer = each["answer"]
        if not isinstance(answer, str):
            answer = "write " + ", ".join(
                f"`{entry(field, value, 'yaml')}`" for field, value in answer.items()
            )
        tools = f" ({each['tools']})" if each["tools"] else ""
        paragraphs.append(f"{written} in {_PLACES[each['mapping']]}{tools}:\n    {answer}")
    return "\n\n".join(paragraphs)


def _kind(code: str) -> str:
    return "warning" if code in WARNINGS else "error" if code in CODES else "reason"


def _document(code: str, summary: str) -> dict[str, Any]:
    found = explanations()[code]
    document = {"code": code, "kind": _kind(code), "summary": summary, "why": found["Why"].text}
    if code in CODES:
        return {**document, "wrong": str(found["Wrong"]), "right": str(found["Right"])}
    remedy = found["What to do"]
    return {
        **document,
        "example": str(found["Example"]),
        "remedy": remedy.text,
        "typed": list(remedy.commands),
    }


def _text(code: str, summary: str, console: Console) -> str:
    """Return the explanation of one code."""
    styles = {"error": "bold red", "warning": "bold yellow", "reason": "bold cyan"}
    head = paint(f"{_kind(code)}[{code}]", styles[_kind(code)], console.color)
    text = f"{head}: {summary}\n"
    width = min(console.width(), 80)
    for title, section in explanations()[code].items():
        if title == "Why":
            text += f"\n{fill(section.text, width)}\n"
            continue
        about = f"{fill(section.text, width - 4)}\n\n" if section.text else ""
        heading = paint(f"{title}:", _TITLES[title], console.color)
        text += f"\n{heading}\n\n{indent(f'{about}{section}', '    ')}"
    return text
