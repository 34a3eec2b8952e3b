"""Render the progress of images that are pulled, built and pushed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

BEGINNINGS = ("pulling", "building", "pushing")
IMAGE_EVENTS = (*BEGINNINGS, "pulled", "built", "pushed")
# Lines that an engine adds to the output of a build: layers, containers, arguments.
_BOOKKEEPING = (
    r" ?---> |Removing intermediate container |Removed intermediate container |Successfully (built|tagged) "
    r"|Step \d+/\d+ : (ARG|LABEL|ENV|WORKDIR) "
)


def image_line(kind: str, facts: Mapping[str, Any], job: str) -> str | None:
    """A line for the start, the build output and the end; None for progress, which only terminals show.

    Args:
        kind, facts: as in `launcher.schedulers.staged.OnImage`.
        job: its name as shown.
    """
    image = facts["image"]
    if facts.get("line"):
        return None if re.match(_BOOKKEEPING, facts["line"]) else f"{job} {image}: {facts['line']}"
    return None if facts.get("done") else f"{job} {kind} {image}"


def image_progress(kind: str, facts: Mapping[str, Any]) -> str:
    """`pulling python:3.12 12 of 48 MB`, for a terminal; "" when done."""
    if kind not in BEGINNINGS:
        return ""
    done, total = facts.get("done") or 0, facts.get("total") or 0
    much = f" {done / 1e6:.0f} of {total / 1e6:.0f} MB" if total else ""
    return f"{kind} {facts['image']}{much}{'  ' if facts.get('line') else ''}{facts.get('line', '')}"
