"""The watcher in a container of the engine: the shared watcher of all clients that name its image.

It has the engine's socket at DOCKER_HOST, and a volume with the records of its apps at LAUNCHER_HOME. Clients
reach it through the engine, see `container.py`, by commands that run in its container, see `pump` in
`rendezvous.py`.

It waits a while for its first client. At the end of its last app it removes its container, and the volume
with it. When it is killed, the engine starts it again, and it goes on with the apps that it finds in the
volume. The requests of waiting apps, which have the values of secrets, are in memory alone: these apps are
abandoned then.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from functools import partial

from launcher import paths
from launcher.errors import StateError
from launcher.schedulers.docker import record
from launcher.schedulers.docker.apps import inspect_app
from launcher.schedulers.docker.client.engine import Engine, connect
from launcher.schedulers.docker.client.errors import EngineError
from launcher.schedulers.docker.client.wire import Patience
from launcher.schedulers.docker.labels import SHARE
from launcher.schedulers.docker.watchers import NO_ENGINE, TURNS_FOLDER
from launcher.schedulers.docker.watching import rendezvous
from launcher.schedulers.docker.watching.watcher import Watcher
from launcher.schedulers.owner import this_process

FIRST_CLIENT_S = 20.0
PROCESS = "watcher.json"
"""The file below LAUNCHER_HOME that names the process."""
_UP_S = 10.0
"""How long, in seconds, a new watcher tries to reach an engine that refuses its connections. Its client,
which waits for longer, then reports why. An engine that takes them and is slow to answer is waited for."""


def main(container: str) -> None:
    """Run the watcher. `container`: the name of its container."""
    os.chdir("/")
    engine = connect()
    _own(paths.home(), TURNS_FOLDER)
    try:
        paths.ensure(record.apps_dir())
    except StateError as error:
        sys.exit(str(error))
    if (made := rendezvous.listen(rendezvous.IN_CONTAINER)) is None:
        sys.exit("another watcher runs here")
    listener = socket.socket(fileno=made.detach())
    try:
        Patience(engine.host, time.monotonic() + _UP_S, holds=True).persist(engine.answer_anew)
        engine.restart_always(container)  # now that it can run: else the engine would start it for ever
    except EngineError as error:
        sys.exit(f"{NO_ENGINE}: {error}")
    watcher = Watcher(engine, rendezvous.Listening(listener), patience_s=FIRST_CLIENT_S)
    resume(engine, watcher)
    with open(os.path.join(paths.home(), PROCESS), "w", encoding="utf-8") as file:
        file.write(this_process().to_json())
    watcher.run()
    watcher.close()
    if record.app_ids():  # the engine was away for too long: go on when it starts this again
        os._exit(1)
    engine.remove(container, force=True)


def _own(*volumes: str) -> None:
    """Give volumes to this user. Else user namespaces, or a folder of the image, decide who owns them."""
    for each in volumes:
        os.chown(each, os.geteuid(), -1)
        os.chmod(each, 0o755)


def resume(engine: Engine, watcher: Watcher) -> None:
    """Go on with the apps of the previous process; forget apps that have not begun, or have ended."""
    record.sweep()
    for app_id in record.app_ids():
        app_dir = record.folder(app_id)
        journal = record.journal(app_dir)
        seen, found = Patience(engine.host, holds=True).persist(partial(inspect_app, engine, app_id))
        is_begun = journal is not None and journal.outcome is None and not journal.is_before_start
        if is_begun or (journal is None and seen is not None and seen.needs_watcher):
            ours, theirs = socket.socketpair()
            watcher.serve(theirs)
            order = {"app_id": app_id, "attached": False, "resumed": True}
            if share := next(filter(None, (each.labels.get(SHARE) for each in found)), ""):
                order["share"] = share
            ours.sendall(json.dumps(order).encode() + b"\n")
            ours.close()
        else:
            record.remove(app_dir)
