"""The digest of what a plan would do to the world: what people approve.

A plan digest has two parts, `lp1:sha256:<hex>+<app id>+<app id>…`:

- The hash covers what would be started: every (job key, document digest) that gets a new or resumed
  attempt. Whether that is called create, replace, rerun or resume is left out, and so are times, commits,
  paths and attempt numbers: they change without changing what runs.
- The app ids, sorted, are the live attempts that would be stopped, by a replace or a destroy.

They are spelled out because approval is not symmetric: a plan may start exactly what was approved, but an
attempt that has ended since needs no stopping any more. With the ids in the text that is a comparison of
sets (`approves`), and a reviewer sees what dies.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from launcher.specs.launch import JobKey

_PREFIX = "lp1:sha256:"


def effects_digest(starts: Iterable[tuple[JobKey, str]], stops: Iterable[str]) -> str:
    """The plan digest of starting documents (by digest) and stopping apps (by id). Order does not matter."""
    text = json.dumps(sorted([*key, digest] for key, digest in starts), separators=(",", ":"))
    return "+".join([_PREFIX + hashlib.sha256(text.encode()).hexdigest(), *sorted(set(stops))])


def covers(approved: str, digest: str) -> bool:
    """Whether approving `approved` approves `digest`: the same starts, no stop beyond the approved."""
    approved_starts, *approved_stops = approved.strip().split("+")
    starts, *stops = digest.split("+")
    return starts == approved_starts and set(stops) <= set(approved_stops)
