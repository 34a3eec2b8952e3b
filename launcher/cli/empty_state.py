"""Warn when a CI runner starts with an empty state folder: finished jobs would run again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from launcher import paths
from launcher.schedulers.registry import get_scheduler
from launcher.specs import Launch


def empty_state_warning(launches: Iterable[Launch], environ: Mapping[str, str] | None = None) -> str:
    """The warning as one paragraph; "" if it does not apply.

    It applies on a CI runner (`CI` is set) with an empty state folder, for jobs of schedulers that store
    outcomes nowhere else. Contacts no engine.
    """
    ci = (os.environ if environ is None else environ).get("CI", "")
    if ci.lower() in ("", "0", "false") or os.path.exists(paths.ledger()):
        return ""
    named = dict.fromkeys(launch.scheduler for launch in launches)
    without_engine = [name for name in named if not get_scheduler(name, "").shared_engine]
    if not without_engine:
        return ""
    shown = " and ".join(f"`{name}`" for name in without_engine)
    return (
        f"the state folder of this CI runner ({paths.home()}) is empty: jobs that {shown} finished before "
        "are unknown here and count as new. Keep LAUNCHER_HOME on a persistent disk, or use an engine that "
        "all runners share"
    )
