"""Render the links of an attempt as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from launcher.cli.render.tables import wrapped
from launcher.cli.render.values import named
from launcher.inventory.verify import MARKS
from launcher.text import paint, plural, printable

if TYPE_CHECKING:
    from launcher.inventory.verify import Chain, Link

_STYLES = {"checked": ("ok", "green"), "missing": ("--", "yellow"), "wrong": ("!!", "bold red")}
_WIDTH = 14


def chain_text(chain: Chain, *, color: bool, columns: int | None = None) -> str:
    """The links, one below the other, and how many are of which mark.

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
