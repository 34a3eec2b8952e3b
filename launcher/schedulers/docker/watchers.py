"""Watchers in containers of the engine, as all clients see them: whether they run, and which apps they have.

Such a watcher has its records in a volume of its own, and removes that of an app at the end of the watch: so
the engine shows whether an app is watched. A process of such a watcher has the name of the container as its
host.
"""

from __future__ import annotations

from functools import cache

from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import NotFound
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.client.view import EngineView
from launcher.schedulers.docker.labels import PART, WATCHER_PART, Labels
from launcher.schedulers.owner import Owner, from_json

PREFIX = "launcher-watcher-"
"""The prefix of the names of the watchers' containers."""
HOME = "/launcher/home"
"""The path of LAUNCHER_HOME in the container of a watcher."""
PROCESS = f"{HOME}/watcher.json"
"""The path of the file that names the watcher's process, in its container."""
TURNS = "launcher-turns"
"""The volume with the tables of turns, which all watchers of an engine have."""
TURNS_FOLDER = "/launcher/turns"
NO_ENGINE = "the watcher cannot reach its engine"
"""The beginning of a watcher's last line when its socket leads to no engine, or to another engine."""
_MOST_BYTES = 4096


class OneLook:
    """A view of an engine that looks at each watcher once, while many apps are read."""

    def __init__(self, engine: EngineView) -> None:
        self.inspect = cache(engine.inspect)
        self.path_stat = cache(engine.path_stat)
        self.read_file = cache(engine.read_file)


Looks = EngineView | OneLook


def is_alive(engine: Looks, process: Owner) -> bool:
    """Whether this process of a watcher on the engine runs."""
    container, file = engine.inspect(process.host), engine.path_stat(process.host, PROCESS)
    if container is None or container.state != "running" or file is None:
        return False
    if (file.written_at or 0.0) < (container.started_at or 0.0):
        return False  # the file of an earlier process, which was killed
    text = engine.read_file(process.host, PROCESS, _MOST_BYTES)
    return text is not None and from_json(text.decode(errors="replace")) == process


def may_be_alive(
    engine: Looks, process: Owner, progress_at: float | None, *, take_over: bool = False
) -> bool:
    """Whether a process that has an app may be running: see `Owner.is_alive`. The engine shows its own."""
    if process.host.startswith(PREFIX):
        return is_alive(engine, process)
    return process.is_alive(progress_at, take_over=take_over)


def is_held(engine: Looks, labels: Labels) -> bool:
    """Whether a running watcher on the engine has the app with these labels."""
    if not labels.watcher:
        return False
    found = engine.inspect(labels.watcher)
    return found is not None and found.state == "running" and has_record(engine, labels)


def has_record(engine: Looks, labels: Labels) -> bool:
    """Whether the container of the app's watcher, running or not, has the record of the app."""
    return engine.path_stat(labels.watcher, f"{HOME}/docker/apps/{labels.app_id}") is not None


def start(engine: Engine, container: Container) -> bool:
    """Start a watcher that was killed; False when it is gone."""
    try:
        engine.start(container.id)
    except NotFound:
        return False
    return True


def start_again(engine: Engine, name: str) -> bool:
    """Start the watcher of this name unless it runs; False when it is gone."""
    found = engine.inspect(name)
    return found is not None and (found.live or start(engine, found))


def start_all(engine: Engine) -> None:
    """Start every watcher that was killed, for the apps in its volume."""
    for each in engine.containers(f"{PART}={WATCHER_PART}"):
        if each.ended and has_come_up(engine, each):
            start(engine, each)


def has_come_up(engine: Looks, container: Container) -> bool:
    """Whether the watcher in this container has ever run: then there may be records in its volume."""
    return engine.path_stat(container.id, PROCESS) is not None
