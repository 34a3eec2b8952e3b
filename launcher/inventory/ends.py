"""Record the outcomes of apps that have ended."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from launcher.state.records import AppRecord
    from launcher.state.store import Store


class EndRecorder:
    """Writes known outcomes into the store, one transaction for each call.

    Faster than `record_ends`: it does not close the store, since the process is about to exit, and does not
    flush to disk, since an outcome lost in a power cut is recorded again. If the state folder cannot be
    written, nothing is recorded, so that reading commands still work.
    """

    def __init__(self) -> None:
        from launcher.errors import StateError
        from launcher.schedulers.registry import open_store

        try:
            self._store: Store | None = open_store(durable=False)
        except StateError:
            self._store = None

    def record(self, *apps: AppRecord) -> None:
        """Record the outcomes of apps. A recorded outcome is not changed."""
        from launcher.errors import StateError

        if self._store is None:
            return
        try:
            self._store.end_all(apps)
        except StateError:
            self._store.close()
            self._store = None


def record_all(ended: Sequence[AppRecord]) -> None:
    """Record the outcomes of these apps; see `EndRecorder`."""
    if ended:
        EndRecorder().record(*ended)


def record_ends(schedulers: Sequence[str]) -> Sequence[Any]:
    """Record the outcomes of these schedulers' apps and clean up after dead supervisors.

    Returns the attempts with new outcomes. If the state folder cannot be written, nothing is recorded, so
    that reading commands still work.
    """
    from launcher.apply import engines as at
    from launcher.errors import StateError
    from launcher.schedulers.registry import open_store

    try:
        with open_store() as store, at.Engines() as engines:
            return at.record_ends(store, engines, schedulers)
    except StateError:
        return ()
