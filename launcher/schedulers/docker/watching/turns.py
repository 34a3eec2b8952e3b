"""Answer clients about the tables of turns, in a watcher on the engine."""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from launcher.schedulers.docker.watching.connection import Connection
from launcher.schedulers.leftovers import start_clearing
from launcher.turns.engine_tables import left, report, started


def answer(connection: Connection, message: Mapping[str, Any]) -> None:
    """Answer a client and leave it. Then have the shares of dead holders cleared. It may block."""
    try:
        is_start = message["op"] == "now"
        connection.answer_in_full(started(message["apps"]) if is_start else report())
    except Exception:
        traceback.print_exc()
    finally:
        connection.close()
    if tickets := left():
        with suppress(OSError):  # the first in line clears them
            os.waitpid(start_clearing(tickets), 0)
