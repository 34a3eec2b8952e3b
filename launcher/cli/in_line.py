"""Show the place of an app in line, until it is its turn."""

from __future__ import annotations

import time

from launcher.cli.console import Console
from launcher.inventory.find import find
from launcher.inventory.status import inspect
from launcher.inventory.turns import wait_in_line

_FIRST_LOOK_S = 0.05
_LOOK_S = 1.0  # between two looks at the line


def show_place(handle: str, console: Console) -> None:
    """Show the app's place in line until it is no longer there."""
    app, shown, pause_s = find(handle).app, "", _FIRST_LOOK_S
    try:
        while (seen := inspect(app)).state == "queued":
            if seen.message != shown and console.err_is_terminal:
                console.note_in_place(f"{app.app_id} {seen.message}")
            elif not shown:
                console.note(f"{app.app_id} {seen.message}")
            shown = seen.message
            if not wait_in_line(app.app_id, _LOOK_S):
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _LOOK_S)
    finally:
        if shown and console.err_is_terminal:
            console.note_in_place("")
