"""The results of jobs: the metrics that attempts leave in their output folders."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from launcher.inventory.outputs import output_file
from launcher.schedulers.appstore import open_store
from launcher.specs.attempt import Attempt
from launcher.specs.jobkey import JobKey
from launcher.specs.outputs import own_output

METRICS = "metrics.json"
"""The file of results, at the top of an output folder: a JSON object of numbers and texts, nested or not."""

_MOST_METRICS = 40
_MOST_BYTES = 1 << 20
_DEEPEST = 4
_LONGEST = 200

Metrics = tuple[str, dict[str, float | str]]
"""Number of an attempt, and path of each value → value."""

_EMPTY: Metrics = "", {}


def two_metrics(key: JobKey) -> list[Metrics]:
    """Number and metrics of the last two successes of a job that wrote some, the newest first."""
    with open_store(readonly=True) as store:
        good = [each for each in store.attempts(key, 10) if each.state == "succeeded"]
    found: list[Metrics] = []
    folders = set()
    for attempt in good:
        if own_output(attempt) not in folders and len(found) < 2:
            folders.add(own_output(attempt))
            found.append((str(attempt.number), metrics_of(attempt)))
    return [*found, _EMPTY, _EMPTY][:2]


def metrics_of(attempt: Attempt) -> dict[str, float | str]:
    """The numbers and texts in the file of metrics, by their paths; {} for a file of another form."""
    try:
        document = json.loads(output_file(attempt, METRICS, _MOST_BYTES) or b"{}")
    except (ValueError, RecursionError):
        return {}
    return dict(_leaves(document, "", _MOST_METRICS)) if isinstance(document, dict) else {}


def _leaves(value: Mapping[str, Any], path: str, most: int) -> list[tuple[str, float | str]]:
    found: list[tuple[str, float | str]] = []
    for name, each in value.items():
        if len(found) >= most:
            break
        if isinstance(each, dict) and path.count(".") < _DEEPEST:
            found += _leaves(each, f"{path}{name}.", most - len(found))
        elif isinstance(each, (int, float)) and not isinstance(each, bool):
            found.append(
                (path + name, each if not isinstance(each, int) or abs(each) < 1 << 53 else str(each))
            )
        elif isinstance(each, str):
            found.append((path + name, each[:_LONGEST]))
    return found
