"""Connect stdin and stdout to the watcher in this container: a client runs this to hand over an app."""

from __future__ import annotations

import os
import select
import sys
import time

from launcher.schedulers.docker.watching import rendezvous

SOCKET = "engine"
"""The name of the watcher's socket."""
_AGAIN_S = 0.02
_PIECE = 1 << 16
_WRITING = 1  # SHUT_WR


def main() -> None:
    """Copy until the watcher closes the connection. Exits with 1 when no watcher listens in time."""
    deadline = time.monotonic() + rendezvous.ANSWER_S
    while (watcher := rendezvous.connect(SOCKET)) is None:
        if time.monotonic() > deadline:
            sys.exit(1)
        time.sleep(_AGAIN_S)
    sources = [0, watcher.fileno()]
    while watcher.fileno() in sources:
        for each in select.select(sources, (), ())[0]:
            data = os.read(each, _PIECE)
            if not data:
                sources.remove(each)
                if each == 0:
                    watcher.shutdown(_WRITING)
            elif each == 0:
                watcher.sendall(data)
            else:
                os.write(1, data)
