"""Render the links of an attempt as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from launcher.text import paint, plural, printable

if TYPE_CHECKING:
    from launcher.inventory.verify import Chain, Link

_STYLES = {"checked": ("ok", "green"), "missing": ("--", "yellow"), "wrong": ("!!", "bold red")}
_WIDTH = 14


def chain_text(chain: Chain, *, color: bool) -> str:
    """The links, one below the other, and how many are of which mark."""
    attempt = chain.attempt
    lines = [paint(f"{attempt.key.job}@{attempt.number}", "bold", color) + f"  {printable(attempt.handle)}"]
    for link in chain.links:
        lines += _link_lines(link, color)
    counts = [f"{len(chain.marked(mark))} {mark}" for mark in ("checked", "missing", "wrong")]
    return "\n".join([*lines, f"{plural(len(chain.links), 'link')}: {', '.join(counts)}"])


def _link_lines(link: Link, color: bool) -> list[str]:
    mark, style = _STYLES[link.mark]
    said = [printable(text) for text in (link.value, link.why) if text]
    head = f"{paint(mark, style, color)}  {link.name.ljust(_WIDTH)}"
    indent = " " * (_WIDTH + 4)
    lines = [f"{head}{said[0] if said else ''}".rstrip(), *(f"{indent}{text}" for text in said[1:])]
    if link.mark == "wrong":
        lines += [f"{indent}expected: {printable(link.expected)}", f"{indent}found: {printable(link.found)}"]
    return lines


def chain_json(chain: Chain) -> dict[str, Any]:
    """The chain as `verify --json` prints it."""
    attempt = chain.attempt
    return {
        "handle": attempt.handle,
        "app_id": attempt.app_id,
        "project": attempt.key.project,
        "target": attempt.key.target,
        "job": attempt.key.job,
        "attempt": attempt.number,
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
