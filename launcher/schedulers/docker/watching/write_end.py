"""Write how an app ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from launcher.schedulers.docker import record, tombstones
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.status import DockerAppView
from launcher.schedulers.docker.watching.inputs import compare


def write_end(engine: Engine, app_dir: str, seen: DockerAppView, labels: Mapping[str, str]) -> None:
    """Write how the app ended, at the engine and in its record; of several writers the first one counts.

    The input files of a success are compared with those of its plan.

    Args:
        labels: of a container, for an app without a record here.
    """
    own = (record.read_attempt(app_dir) or {}).get("labels") or labels
    if seen.state == "succeeded":
        seen = replace(seen, inputs_changed=seen.inputs_changed or compare(app_dir, own))
    tombstones.write(engine, own, seen)
    record.append(
        app_dir,
        "ended",
        state=seen.state,
        message=seen.message,
        code=seen.exit_code,
        drift=seen.drift,
        t=round((seen.ended_at or 0) * 1e9),
    )
