"""The one event stream of a watcher: it reads the events of all apps of the engine, and hands them on."""

from __future__ import annotations

from typing import Protocol

from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import EngineError, EngineSilent
from launcher.schedulers.docker.client.streams import Event, EventStream
from launcher.schedulers.docker.client.wire import Patience
from launcher.schedulers.docker.labels import APP_ID


class Listener(Protocol):
    """The receiver of a stream's events. Its methods are called in the thread that reads the stream."""

    def origin(self) -> float:
        """The time from which events are needed at first, epoch seconds."""

    def happened(self, event: Event) -> None:
        """Take an event of any app of the engine."""

    def connected(self) -> None:
        """Note that the stream is open, for the first time or again, with all events since the last one."""

    def disconnected(self, error: EngineError) -> None:
        """Note that the connection has ended."""


class SharedStream:
    """Reads the events of the containers of all apps, in the thread that calls `read`.

    Attributes:
        is_open: whether events from now on will be handed on.
        since: the time from which on each event is handed on; None before the first connection.
    """

    def __init__(self, engine: Engine, listener: Listener) -> None:
        self.is_open = False
        self.since: float | None = None
        self._engine = engine
        self._listener = listener
        self._seen_until: float | None = None
        self._stream: EventStream | None = None
        self._patience = Patience(engine.host, holds=True)

    def read(self) -> None:
        """Read until the engine has been away for too long, as EngineUnreachable says."""
        self._patience.persist(self._connect)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def _connect(self) -> None:
        """Read one connection to its end. It begins with all events since the last one."""
        if self.since is None:
            self.since = self._listener.origin()
        since = self.since if self._seen_until is None else self._seen_until
        try:
            with self._engine.events(APP_ID, since=since) as events:
                self._stream = events
                self._patience.answered()
                self._open()
                for event in events:
                    self._seen_until = event.time
                    self._listener.happened(event)
        except EngineSilent as error:
            if not self._engine.host.startswith("unix://"):  # its peer cannot vanish without an end
                self._close(error)
            raise
        except EngineError as error:
            self._close(error)
            raise

    def _open(self) -> None:
        if not self.is_open:
            self.is_open = True
            self._listener.connected()

    def _close(self, error: EngineError) -> None:
        if self.is_open:
            self.is_open = False
            self._listener.disconnected(error)
