"""The outbox: a record for each attempt whose outcome is still to be sent, and the start of its sender.

::

    $LAUNCHER_HOME/notify/<group>/<app id>   the record, JSON; its mtime is the time when it is due
    $LAUNCHER_HOME/notify/<group>.lock       held by the sender of the group
    $LAUNCHER_HOME/notify/<group>.bell       FIFO: the sender leaves when a byte comes
    $LAUNCHER_HOME/notify/<group>.log        stderr of the sender

A group is a set of receivers and a folder. Its sender has the environment of the last apply that submitted an
attempt of the group, since references of secrets such as `env:KEY` mean other values elsewhere. Every command
starts the senders that are missing; see `wake`.
"""

from __future__ import annotations

import os
import sys
import time

from launcher import paths
from launcher.filelock import is_file_locked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from launcher.specs.notify import Destination

VERSION = 1


def add(app_id: str, to: Sequence[Destination], folder: str) -> None:
    """Note that the outcome of a new attempt is to be sent; replaces a record of the same app id.

    Args:
        to: the receivers; without any, an old record is removed.
        folder: the folder in which commands run.

    Raises StateError.
    """
    remove(app_id)
    if not to:
        return
    import json

    from launcher.files import write_whole
    from launcher.hashes import sha256

    about = {"version": VERSION, "to": [each.to_json() for each in to], "folder": folder}
    text = json.dumps(about, sort_keys=True)
    group = sha256(text.encode()).hexdigest()[:16]
    try:
        below = paths.ensure(os.path.join(paths.outbox(), group))
        write_whole(os.path.join(below, app_id), text, mode=0o600)
    except OSError as error:
        raise paths.unusable(error, paths.outbox()) from error


def remove(app_id: str) -> None:
    """Remove the record of an attempt."""
    for group in groups():
        try:
            os.unlink(os.path.join(group, app_id))
        except OSError:
            pass


def groups() -> list[str]:
    """The folders of all groups."""
    try:
        with os.scandir(paths.outbox()) as found:
            return sorted(each.path for each in found if each.is_dir(follow_symlinks=False))
    except OSError:
        return []


def wake(*, anew: Sequence[str] = ()) -> None:
    """Start a sender for each group with a record that is due, unless one runs. Never raises.

    The senders of the groups of `anew`, ids of apps that this process submitted, are replaced by senders with
    the environment of this process.
    """
    for group in groups():
        try:
            is_new = any(os.path.exists(os.path.join(group, app_id)) for app_id in anew)
            if is_new or (not is_file_locked(f"{group}.lock") and is_due(group)):
                _start(group, replaces=is_new)
        except OSError:  # the next command tries again
            continue


def is_due(group: str) -> bool:
    """Whether a record of the group is due."""
    now = time.time()
    with os.scandir(group) as found:
        return any(each.stat().st_mtime <= now for each in found if "." not in each.name)


def records(group: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the app id and the content of each record of a group. Damaged records are removed."""
    from launcher.files import remove_leftovers

    for name in sorted(os.listdir(group)):
        app_id, is_unfinished, _ = name.partition(".")
        if is_unfinished:
            remove_leftovers(os.path.join(group, f"{app_id}."), ".new")
        elif (found := read(group, app_id)) is not None:
            yield app_id, found


def read(group: str, app_id: str) -> dict[str, Any] | None:
    """The content of a record; None without one. A damaged one is removed."""
    import json

    from launcher.files import read_regular

    path = os.path.join(group, app_id)
    try:
        found: dict[str, Any] = json.loads(read_regular(path))
        return found if found["version"] == VERSION else None
    except (ValueError, TypeError, KeyError):
        os.unlink(path)
    except FileNotFoundError:
        pass
    return None


def write(group: str, app_id: str, record: Mapping[str, Any], due_at: float) -> None:
    """Replace a record. `due_at` is in epoch seconds. Raises OSError."""
    import json

    from launcher.files import write_whole

    path = os.path.join(group, app_id)
    if os.path.exists(path):  # otherwise an apply has just undone the attempt
        write_whole(path, json.dumps(record), mode=0o600)
        os.utime(path, (due_at, due_at))


def troubles(app_id: str) -> list[str]:
    """The reasons why receivers have not got an outcome of an app, as sentences."""
    found = (read(group, app_id) for group in groups())
    left = [each for record in found if record is not None for each in record.get("left", ())]
    return [each["error"] for each in left if each["error"]]


def _start(group: str, *, replaces: bool) -> None:
    """Start the sender of a group, in its own session; it may replace one that runs. Raises OSError."""
    from launcher.ci_environment import inherited

    null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1)]
    log = (os.POSIX_SPAWN_OPEN, 2, f"{group}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    env = {**inherited(), "LAUNCHER_HOME": paths.home()}
    program = paths.program("launcher.notify")
    argv = [sys.executable, "-I", "-c", program, group, str(int(replaces)), *sys.path]
    os.posix_spawn(sys.executable, argv, env, file_actions=[*null, log], setsid=True)
