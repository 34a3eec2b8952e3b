"""`launcher verify`: check every link of an attempt, from its pull request to the files that it left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from launcher.ci.approvals import asked
from launcher.ci.github import github_of
from launcher.cli.arguments import add_app
from launcher.cli.console import Console
from launcher.cli.render.values import named
from launcher.inventory.find import find_app
from launcher.inventory.verify import MARKS, verify
from launcher.text import paint, plural, printable, wrapped

if TYPE_CHECKING:
    from launcher.inventory.verify import Chain, Link

WRONG = 8

USAGE = "verify JOB@ATTEMPT [OPTIONS]"
HELP = """\
Check an attempt link by link: pull request, approval, document, workspace,
image, exit and the files that it left. Digests are computed again, the records
of ledger and engine are compared, and the workspace with the commit of the
clone that this is run in. Nothing is written.

Marks: ok checked, -- missing (not recorded, or nothing to check it with), !!
wrong (a record was changed, or the files are others)."""
EXAMPLES = """\
  launcher verify train@3
  launcher verify train --strict              also fail if a link is missing
  launcher verify train@3 --json | jq '.links[] | select(.mark == "wrong")'

Exit codes: 0 no link is wrong, 8 a link is wrong, or missing with --strict."""


def add_arguments(parser: Any) -> None:
    add_app(parser)
    parser.option("--strict", "exit with 8 also if a link is missing")
    parser.option("--online", "ask GitHub for pull request and approval, with the token in GITHUB_TOKEN")
    parser.option("--json", "print one JSON object")


def run(args: Any, console: Console) -> int:
    chain = verify(find_app(args.app, args.target))
    if args.online and chain.attempt.pull_request:
        chain = asked(chain, github_of(chain.attempt.origin))
    if args.json:
        console.json(chain_json(chain))
    else:
        console.print(chain_text(chain, color=console.color, columns=console.columns))
    return WRONG if chain.marked("wrong") or (args.strict and chain.marked("missing")) else 0


_STYLES = {"checked": ("ok", "green"), "missing": ("--", "yellow"), "wrong": ("!!", "bold red")}
_WIDTH = 14


def chain_text(chain: Chain, *, color: bool, columns: int | None = None) -> str:
    """Return the links, one below the other, and how many have each mark.

    Args:
        columns: the width of the terminal; None does not wrap.
    """
    attempt = chain.attempt
    lines = [paint(f"{attempt.key.job}@{attempt.number}", "bold", color) + f"  {printable(attempt.handle)}"]
    for link in chain.links:
        mark, style = _STYLES[link.mark]
        first, *more = _said(link, columns)
        lines.append(f"{paint(mark, style, color)}  {link.name.ljust(_WIDTH)}{first}".rstrip())
        lines += [f"{' ' * (_WIDTH + 4)}{text}" for text in more]
    counts = [f"{len(chain.marked(mark))} {mark}" for mark in MARKS]
    return "\n".join([*lines, f"{plural(len(chain.links), 'link')}: {', '.join(counts)}"])


def _said(link: Link, columns: int | None) -> list[str]:
    said = [link.value, link.why]
    if link.mark == "wrong":
        said += [f"expected: {link.expected}", f"found: {link.found}"]
    lines = []
    for text in map(printable, filter(None, said)):
        lines += wrapped(text, columns - _WIDTH - 4) if columns else [text]
    return lines


def chain_json(chain: Chain) -> dict[str, Any]:
    """The chain as `verify --json` prints it."""
    return {
        **named(chain.attempt),
        "records": list(chain.records),
        "links": [
            {
                "name": link.name,
                "mark": link.mark,
                "value": link.value or None,
                "why": link.why,
                "expected": link.expected or None,
                "found": link.found or None,
            }
            for link in chain.links
        ],
    }
