"""Claim an app id: its row, its folder and its lock, so that exactly one process owns the id at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from launcher import paths
from launcher.errors import ReservedError, StateError
from launcher.holding.journal import is_full, preallocate
from launcher.schedulers.appfolder import AppFolder, remove_tree
from launcher.schedulers.local import appview, rundir
from launcher.schedulers.record import row_of, write_json
from launcher.schedulers.registry import open_store
from launcher.state.records import UNSTARTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from launcher.schedulers.local.popen import PopenRequest
    from launcher.state.store import Store


_EVENTS_OF_APP, _EVENTS_OF_REPLICA = 4096, 256  # bytes


class Claim:
    """An app folder, owned while `lock_fd` is open here or in the supervisor that inherits it."""

    def __init__(self, app_dir: str, lock_fd: int) -> None:
        self.app_dir = app_dir
        self.lock_fd = lock_fd

    def prepare(self, request: PopenRequest) -> None:
        """Record the request, and allocate blocks for events, for which a disk that is full later has room.

        Raises StateError where the disk is full now.
        """
        size = _EVENTS_OF_APP + _EVENTS_OF_REPLICA * sum(map(len, request.role_params.values()))
        path = os.path.join(self.app_dir, rundir.EVENTS)
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                preallocate(fd, 0, size)
            finally:
                os.close(fd)
        except OSError as error:
            if is_full(error):  # otherwise the file system cannot allocate blocks
                raise paths.unusable(error, self.app_dir) from error
        write_json(self.app_dir, "request.json", request.to_json())

    def release(self) -> None:
        """Close this process's copy of the lock; a supervisor that inherited it keeps its own."""
        if self.lock_fd >= 0:
            os.close(self.lock_fd)
            self.lock_fd = -1


def claim(store: Store, app_dir: str, record: dict[str, Any]) -> Claim:
    """Take the app id of `record` with its folder, and write the record. Raises ReservedError, StateError.

    The row is written before the folder, so that no folder is ever without a row, and again after it, because
    another process may have removed the row as void.
    """
    app_id = record["app_id"]
    row = row_of(record["scheduler"], app_id, record)
    while True:
        store.add(row)
        new = True
        try:
            os.mkdir(app_dir, 0o700)
        except FileExistsError:
            new = False
        except OSError as error:
            raise paths.unusable(error, app_dir) from error
        fd = _lock(app_dir, app_id)
        if fd >= 0:
            store.add(row)
            break
    made = Claim(app_dir, fd)
    try:
        if not new:
            _take_over(app_dir, record["app_id"])
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"pid {os.getpid()} on {os.uname().nodename}".encode(), 0)
        write_json(app_dir, "attempt.json", record)
    except OSError as error:
        made.release()
        raise paths.unusable(error, app_dir) from error
    except (ReservedError, StateError):
        made.release()
        raise
    return made


def discard(made: Claim) -> None:
    """Remove the claimed folder and its row."""
    AppFolder(made.app_dir).remove()
    made.release()
    with open_store(durable=False) as store:
        store.remove_void(os.path.basename(made.app_dir), made.app_dir)


def discard_ownerless(app_dir: str) -> bool:
    """Remove an app that was never started and whose owner is dead. False when it has an owner after all."""
    app_id = os.path.basename(app_dir)
    try:
        fd = _lock(app_dir, app_id)
    except ReservedError:
        return False
    made = Claim(app_dir, fd)
    view = appview.read_state(app_dir, ours=True) if fd >= 0 else None
    if view is not None and view.state not in UNSTARTED:
        made.release()
        return False
    discard(made)
    return True


@contextmanager
def hold_ownerless(app_dir: str) -> Iterator[None]:
    """Hold the lock of an app without an owner. Raises ReservedError, FileNotFoundError."""
    fd = _lock(app_dir, os.path.basename(app_dir))
    if fd < 0:
        raise FileNotFoundError(app_dir)
    try:
        yield
    finally:
        os.close(fd)


def discard_ended(app_dir: str) -> None:
    """Remove an app that has ended. Raises ReservedError while its supervisor is running."""
    fd = _lock(app_dir, os.path.basename(app_dir))
    discard(Claim(app_dir, fd))


def _lock(app_dir: str, app_id: str) -> int:
    """Take the lock of the folder; returns its descriptor, -1 when the folder was removed meanwhile."""
    try:
        return AppFolder(app_dir).take_lock()
    except FileNotFoundError:
        return -1
    except BlockingIOError:
        view = appview.read_state(app_dir)
        raise ReservedError(app_id, view.state if view else "gone", view.owner if view else "") from None
    except OSError as error:
        raise paths.unusable(error, AppFolder(app_dir).lock) from error


def _take_over(app_dir: str, app_id: str) -> None:
    """Clear the files of a dead owner, under the lock.

    This process may be killed, too: the events are removed first, since an app without events waits for
    nothing, and attempt.json stays until it is replaced, so that the app is a begun submission of its attempt
    throughout. Raises ReservedError when the app was started: then it is an attempt of its own, whatever its
    outcome.
    """
    view = appview.read_state(app_dir, ours=True)
    if view is not None and view.state not in UNSTARTED:
        raise ReservedError(app_id, view.state, "")
    kept = {AppFolder(app_dir).lock, os.path.join(app_dir, "attempt.json")}
    paths_left = {os.path.join(app_dir, name) for name in os.listdir(app_dir)} - kept
    for path in sorted(paths_left, key=lambda path: path != rundir.events(app_dir)):
        _delete(path)


def _delete(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        remove_tree(path)
    else:
        os.unlink(path)
