"""What a CI runner that begins with nothing cannot know: which work has been done."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from launcher import paths
from launcher.schedulers.registry import get_scheduler
from launcher.specs import Launch


def unknown_work(launches: Iterable[Launch], environ: Mapping[str, str] | None = None) -> str:
    """A warning where finished work cannot be known, as one paragraph; "" elsewhere.

    That is on a CI runner (`CI` is set) whose state folder is empty, for jobs of schedulers that remember
    nowhere else. Asks no engine.
    """
    said = (os.environ if environ is None else environ).get("CI", "")
    if said.lower() in ("", "0", "false") or os.path.exists(paths.ledger()):
        return ""
    named = dict.fromkeys(launch.scheduler for launch in launches)
    forgetful = [name for name in named if not get_scheduler(name, "").shared_engine]
    if not forgetful:
        return ""
    shown = " and ".join(f"`{name}`" for name in forgetful)
    return (
        f"the state folder of this CI runner ({paths.home()}) is empty: what {shown} has finished before is "
        "not known here, and counts as new. Keep LAUNCHER_HOME on a disk that stays, or use an engine that "
        "all runners share"
    )
