"""Compare the input files of an app with those of its plan: when a waiting app starts, and at the end."""

from __future__ import annotations

from collections.abc import Mapping
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from launcher.schedulers.docker import record
from launcher.schedulers.docker.labels import INPUTS
from launcher.specs.inputs import UNDER
from launcher.specs.launch import InputRef

_LOOK_S = 0.25
_UNKNOWN = "its input files were not compared when it ended: the record that names them is lost"
_CUT_SHORT = "its input files were not compared when it ended: it was cancelled meanwhile"


def to_json(ref: InputRef) -> list[Any]:
    """The value of `inputs` in attempt.json."""
    return [*ref[:3], list(ref.globs)]


def compare(app_dir: str, labels: Mapping[str, str]) -> str:
    """The input files that have changed since the plan, as text, which the journal gets too; "" for none.

    A cancellation ends a comparison that takes long.

    Args:
        labels: of a container of the app.
    """
    if not labels.get(INPUTS):
        return ""
    recorded = (record.read_attempt(app_dir) or {}).get("inputs")
    changed = _changed(app_dir, recorded) if recorded else _UNKNOWN
    if changed:
        record.append(app_dir, "inputs", changed=changed)
    return changed


def _changed(app_dir: str, recorded: list[Any]) -> str:
    from launcher.workspace.inputs import changed_since  # most apps have none, and watchers stay small

    digest, directory, root, globs = recorded
    ref, found = InputRef(digest, directory, root, tuple(globs)), SimpleQueue[str]()
    Thread(target=lambda: found.put(changed_since(ref, UNDER)), daemon=True).start()
    while True:
        try:
            return found.get(timeout=_LOOK_S)
        except Empty:
            journal = record.journal(app_dir)
            if journal is not None and journal.app.cancel is not None:
                return _CUT_SHORT
