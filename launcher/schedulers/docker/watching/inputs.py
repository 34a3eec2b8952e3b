"""Compare the input files of an app with those of its plan: when a waiting app starts, and at its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from launcher.schedulers.docker import record
from launcher.schedulers.docker.labels import INPUTS
from launcher.specs.inputs import UNDER
from launcher.specs.launch import InputRef

_UNKNOWN = "its input files were not compared when it ended: the record that names them is lost"


def to_json(ref: InputRef) -> list[Any]:
    """The value of `inputs` in attempt.json."""
    return [*ref[:3], list(ref.globs)]


def compare(app_dir: str, labels: Mapping[str, str]) -> str:
    """The input files that have changed since the plan, as text, which the journal gets too; "" for none.

    Args:
        labels: of a container of the app.
    """
    changed = _changed(app_dir, labels)
    if changed:
        record.append(app_dir, "inputs", changed=changed)
    return changed


def _changed(app_dir: str, labels: Mapping[str, str]) -> str:
    if not labels.get(INPUTS):
        return ""
    recorded = (record.read_attempt(app_dir) or {}).get("inputs")
    if not recorded:
        return _UNKNOWN
    from launcher.workspace.inputs import changed_since  # most apps have none, and watchers stay small

    digest, directory, root, globs = recorded
    return changed_since(InputRef(digest, directory, root, tuple(globs)), UNDER)
