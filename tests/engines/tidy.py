"""Objects that tests leave on an engine: each test removes its own, the last session the shared ones.

Workers and sessions share one engine. A test's things bear its token (in the project of its jobs, in the
session of its apps); a session knows by a shared lock whether it is the last one. All sessions of a machine
lock the folder of the engine's socket, whatever their TMPDIR is.
"""

import fcntl
import functools
import json
import os
import secrets
import time
from collections.abc import Iterable
from pathlib import Path

from launcher.schedulers.docker.watchers import TURNS
from tests.engines.docker import Daemon, Thing, is_ours
from tests.engines.images import SHELL_IMAGE, lock_file, made_by_tests, make_images

APP_ID = "launcher.app-id"
_PATIENCE_S, _AGAIN_S = 30.0, 0.5


def new_token() -> str:
    """Return a new project and session name; short, since container names begin with app ids."""
    return f"t{secrets.token_hex(4)}"


def of_token(token: str, things: Iterable[Thing]) -> list[Thing]:
    """Return the objects with a test's token, and the containers and volumes of the same apps."""
    ours = [thing for thing in things if is_ours(thing)]
    found = [thing for thing in ours if token in json.dumps(dict(thing.labels))]
    apps = {thing.labels.get(APP_ID) for thing in found} - {None}
    return [thing for thing in ours if thing in found or thing.labels.get(APP_ID) in apps]


_MARKS = (".cancelled", ".timed-out", ".stopped", ".ended")


def unfinished(things: Iterable[Thing]) -> list[Thing]:
    """Return objects that no finished app leaves: live or unstarted containers, stray volumes, networks."""
    found = list(things)
    held = {one.labels.get(APP_ID) for one in found if one.kind == "container"}
    return [
        thing
        for thing in found
        if (thing.kind == "container" and not _is_over(thing))
        or (thing.kind == "volume" and not outlives(thing) and thing.labels.get(APP_ID) not in held)
        or thing.kind == "network"
    ]


def is_tombstone(thing: Thing) -> bool:
    """Return whether the object records the outcome of a job: it outlives the job's containers."""
    return "launcher.tombstone" in thing.labels


def outlives(thing: Thing) -> bool:
    """Return whether the object outlives the containers of its job: a tombstone, or an output folder."""
    return is_tombstone(thing) or "launcher.output" in thing.labels


def _is_over(container: Thing) -> bool:
    """Return whether a container has ended, or was stopped before it ran, as its name then says."""
    return container.state in ("exited", "dead") or container.name.endswith(_MARKS)


@functools.cache
def join() -> int:
    """Register this process as a user of the engine: no other session's end removes the shared objects.

    Returns the descriptor that is locked until the process ends.
    """
    lock = _opened()
    fcntl.flock(lock, fcntl.LOCK_SH)
    make_images(SHELL_IMAGE)
    return lock


def _opened() -> int:
    host = Daemon().host
    if host.startswith("unix://"):
        return os.open(Path(host.removeprefix("unix://")).resolve().parent, os.O_RDONLY)
    return os.open(lock_file("engine"), os.O_RDWR | os.O_CREAT, 0o600)


def part() -> None:
    """Unregister this process as a user of the engine."""
    if join.cache_info().currsize:
        os.close(join())
        join.cache_clear()


def leave(before: Iterable[Thing]) -> list[Thing]:
    """Remove shared objects unless other sessions run; return the objects left that were not `before`."""
    part()
    lock = _opened()
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return _left(before)
    except BlockingIOError:
        return []  # whoever ends last judges
    finally:
        os.close(lock)


def _left(before: Iterable[Thing]) -> list[Thing]:
    known = {thing.id for thing in before}
    daemon = Daemon()
    daemon.remove(made_by_tests())
    daemon.remove(volume for volume in daemon.volumes() if volume.name == TURNS)
    deadline = time.monotonic() + _PATIENCE_S  # a busy engine frees the endpoints of containers late
    while shared := [net for net in daemon.networks() if net.name == "launcher" and net.id not in known]:
        for network in shared:
            daemon.release(network)
        daemon.remove(shared)
        if time.monotonic() > deadline:
            known |= {network.id for network in shared if daemon.miscounts(network)}
            break
        time.sleep(_AGAIN_S)
    left = [thing for thing in daemon.everything() if is_ours(thing) and thing.id not in known]
    return [daemon.with_endpoints(thing) if thing.kind == "network" else thing for thing in left]
