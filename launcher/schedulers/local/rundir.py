"""The folder of an app: every path in it, its lock, its removal, and what its record says.

::

    <state folder>/apps/<app id>/
        lock            held by whoever submits the app, then by its supervisor; free: nobody works on it
        attempt.json    what was reserved
        request.json    what is to run
        events.jsonl    what happened; only the supervisor writes it
        cancel          somebody wants it stopped; says who, and `grace SECONDS` where they said so
        scratch/        LAUNCHER_SCRATCH
        spare           a few blocks that are given back when the disk is full, for the last events
        logs/<role>/<k>/{stdout.log,stderr.log,combined.log,index}
"""

from __future__ import annotations

import fcntl
import os
import time

from launcher.schedulers.local import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.schedulers.local.appview import AppView as AppView
    from launcher.schedulers.local.appview import ReplicaView as ReplicaView

STDOUT = "stdout.log"
STDERR = "stderr.log"
COMBINED = "combined.log"
INDEX = "index"
"""16 bytes a record, little endian: offset in combined.log, then time in ns << 2 | kind (0 stdout, 1 stderr,
2 restart). What is written from that offset on, up to the next record's, is of that time and kind."""

GONE = ".gone-"
GRACE = "grace "
LOCK_PATIENCE_S = 0.05


def apps_dir(state_dir: str) -> str:
    return os.path.join(state_dir, "apps")


def app_dir(state_dir: str, app_id: str) -> str:
    return os.path.join(state_dir, "apps", app_id)


def lock(app_dir: str) -> str:
    return os.path.join(app_dir, "lock")


def attempt(app_dir: str) -> str:
    return os.path.join(app_dir, "attempt.json")


def request(app_dir: str) -> str:
    return os.path.join(app_dir, "request.json")


def events(app_dir: str) -> str:
    return os.path.join(app_dir, "events.jsonl")


def cancel(app_dir: str) -> str:
    return os.path.join(app_dir, "cancel")


def scratch(app_dir: str) -> str:
    return os.path.join(app_dir, "scratch")


def spare(app_dir: str) -> str:
    return os.path.join(app_dir, "spare")


def is_locked(app_dir: str) -> bool:
    """Whether somebody works on the app. Writes nothing; whoever takes the lock meanwhile must try again."""
    try:
        fd = os.open(lock(app_dir), os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def read_state(app_dir: str) -> AppView | None:
    """What the record and the lock say of an app; None where there is no such folder. Writes nothing.

    Raises StateError for a record that a newer version wrote.
    """
    from launcher.schedulers.local.appview import fold  # the supervisor has no use for it

    record = _read(events(app_dir))
    locked = is_locked(app_dir)
    view = fold(record, locked=locked)
    if locked and view.supervisor and view.state in ("created", "running"):
        locked = _outlasts(app_dir, view.supervisor)
    if not locked:  # it may have ended between the record and the lock: what is written now is all there is
        record = _read(events(app_dir))
        view = fold(record, locked=False)
    if not record and not os.path.isdir(app_dir):
        return None
    if locked and view.state in ("reserved", "created"):
        view.owner = _owner(app_dir, view)
    return view


def _outlasts(app_dir: str, supervisor: tuple[int, int, str]) -> bool:
    """Whether the lock stays held. What a supervisor was spawning when it was killed has a copy of the lock
    until it becomes the new program: a moment, on a busy machine a few milliseconds."""
    pid, start, boot = supervisor
    patience = time.monotonic() + LOCK_PATIENCE_S
    while not kernel.is_running(pid, start) and boot == kernel.boot_id():
        if time.monotonic() > patience:  # it may live in another container, out of our sight
            break
        time.sleep(LOCK_PATIENCE_S / 25)
        if not is_locked(app_dir):
            return False
    return True


def _owner(app_dir: str, view: AppView) -> str:
    host = os.uname().nodename
    if view.supervisor:
        return f"pid {view.supervisor[0]} on {host}"
    return _read(lock(app_dir)).decode(errors="replace").strip() or f"a process on {host}"


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def remove(app_dir: str) -> None:
    """Remove the folder of an app: at once for everybody else, even if we are killed while deleting."""
    folder, name = os.path.split(app_dir)
    hidden = os.path.join(folder, f"{GONE}{name}-{os.getpid()}-{time.time_ns()}")
    try:
        os.rename(app_dir, hidden)
    except FileNotFoundError:
        return
    remove_tree(hidden)


def sweep(apps_dir: str) -> None:
    """Finish the removals that somebody was killed in."""
    try:
        names = os.listdir(apps_dir)
    except FileNotFoundError:
        return
    for name in names:
        if name.startswith(GONE):
            remove_tree(os.path.join(apps_dir, name))


def make_folders(path: str) -> list[str]:
    """Make a folder and its missing parents; the ones that were made, parents first."""
    try:
        os.mkdir(path)
    except FileNotFoundError:
        return [*make_folders(os.path.dirname(path)), *make_folders(path)]
    except FileExistsError:
        if os.path.isdir(path):
            return []
        raise
    return [path]


def remove_tree(top: str) -> None:
    """Delete a folder and what is in it, following no links. What is not ours to delete stays."""
    folders = [top]
    for folder in folders:  # grows while we walk it
        try:
            os.chmod(folder, 0o700)  # apps leave read-only folders behind
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        os.unlink(entry.path)
        except OSError:
            continue
    for folder in reversed(folders):
        try:
            os.rmdir(folder)
        except OSError:
            continue
