"""Record how apps ended, where that was not on record before."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from launcher.state.records import AppRecord
    from launcher.state.store import Store


class EndRecorder:
    """Writes into the store how apps ended, at the price of one statement.

    `settle` does that and more; this is for a client that is in a hurry and knows how the app ended: the
    store is not closed (the process ends anyway), and what a power cut takes back is recorded again.
    Where the state folder cannot be written nothing is recorded: reading must still work.
    """

    def __init__(self) -> None:
        from launcher.errors import StateError
        from launcher.schedulers.appstore import open_store

        try:
            self._store: Store | None = open_store(durable=False)
        except StateError:
            self._store = None

    def record(self, app: AppRecord) -> bool:
        """`app` has ended; True when that was not on record before. An end on record stays as it is."""
        from launcher.errors import StateError

        if self._store is None:
            return False
        state: Any = app.state
        try:
            return self._store.end(
                app.app_id, state, app.ended_at, app.message, app.exit_code, started_at=app.started_at
            )
        except StateError:
            self._store.close()
            self._store = None
            return False


def settle(schedulers: Sequence[str]) -> Sequence[Any]:
    """Record what has ended and remove what dead supervisors left; the attempts whose end is new.

    Where the state folder cannot be written nothing is recorded: reading must still work.
    """
    from launcher.apply.engines import Engines
    from launcher.apply.settle import settle as record
    from launcher.errors import StateError
    from launcher.schedulers.appstore import open_store

    try:
        with open_store() as store, Engines() as engines:
            return record(store, engines, schedulers)
    except StateError:
        return ()
