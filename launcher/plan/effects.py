"""The plan digest: what a plan would start and stop, and what users approve.

A plan digest has two parts, `lp2:sha256:<hex>+<app id>+<app id>…`:

- The hash covers what would be started: job key, document digest, origin and path of the job file of every
  job that gets a new or resumed attempt. Origin and path count because the folder of the job file is where
  its relative paths, scripts and workspace are found. So does the digest of the job's `inputs`, where it has
  any: other files there change what runs, as another workspace does. Whether the action is called create,
  replace, rerun or resume is left out, and so are times, commits and attempt numbers: what runs does not
  depend on them.
- The app ids, sorted, are the live attempts that would be stopped, by a replace or a destroy.

The ids are spelled out because approval is not symmetric: a plan may start exactly what was approved, but an
attempt that has ended since needs no stopping any more. With the ids in the text that is a comparison of
sets (`approves`), and a reviewer sees which attempts will be stopped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import NamedTuple

from launcher.specs.launch import JobKey

_PREFIX = "lp2:sha256:"
_OLD_PREFIX = "lp1:"


class StartEffect(NamedTuple):
    """One job that a plan starts: its key, the digest of its document, the job file that declares it, and the
    digest of its `inputs`, "" for none."""

    key: JobKey
    digest: str
    origin: str
    path: str
    inputs: str = ""


def effects_digest(starts: Iterable[StartEffect], stops: Iterable[str]) -> str:
    """The plan digest of starting jobs and stopping apps (by id). Order does not matter."""
    rows = sorted(
        [*start.key, start.digest, start.origin, start.path, *filter(None, [start.inputs])]
        for start in starts
    )
    text = json.dumps(rows, separators=(",", ":"))
    return "+".join([_PREFIX + hashlib.sha256(text.encode()).hexdigest(), *sorted(set(stops))])


def covers(approved: str, digest: str) -> bool:
    """Whether approving `approved` approves `digest`: the same starts, no stop beyond the approved."""
    approved_starts, *approved_stops = approved.strip().split("+")
    starts, *stops = digest.split("+")
    return starts == approved_starts and set(stops) <= set(approved_stops)


def is_superseded(digest: str) -> bool:
    """Whether an older version made this plan digest; such a digest approves nothing today."""
    return digest.strip().startswith(_OLD_PREFIX)
