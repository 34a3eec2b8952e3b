"""Follow an app for the readers of its logs: one event stream for all of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Condition, Lock, Thread
from typing import TYPE_CHECKING

from launcher.schedulers.docker.client.errors import EngineError, may_pass
from launcher.schedulers.docker.client.persist import Patience
from launcher.schedulers.docker.client.streams import Event, EventStream
from launcher.schedulers.docker.client.view import EngineView
from launcher.schedulers.docker.labels import APP_ID

if TYPE_CHECKING:
    from launcher.schedulers.docker.client.objects import Container

_FIRST_CHECK_S, _LAST_CHECK_S = 1.0, 30.0
_LEAVE_S = 2.0


class FollowedApp:
    """An app whose logs are followed, by any number of readers in any threads.

    One connection receives the events of its containers, and the engine is asked about the app once for all
    readers: when no container runs any more, and periodically, since the watcher's records cause no event.

    Args:
        is_over: reads whether the app has ended, so that no more output follows.
    """

    def __init__(self, engine: EngineView, app_id: str, is_over: Callable[[], bool]) -> None:
        self._engine = engine
        self._app_id = app_id
        self._is_over = is_over
        self._changed = Condition()
        self._checking = Lock()
        self._begun = Lock()
        self._events: EventStream | None = None
        self._listener: Thread | None = None
        self._over = False
        self._closed = False
        self._error: EngineError | None = None
        self._ended_before: frozenset[str] = frozenset()
        self._known: set[str] = set()
        self._live: set[str] = set()
        self._removed: set[str] = set()
        self._starts: dict[str, int] = {}
        self._pause_s = _FIRST_CHECK_S
        self._next_check = 0.0

    def begin(self) -> None:
        """Subscribe to events, and read the app. Every reader calls it first; the first call does it."""
        with self._begun:
            if self._listener is not None or self._over or self._closed:
                return
            events, found = self._subscribe()
            self._ended_before = frozenset(each.id for each in found if each.ended)
            if self._over:
                events.close()
                return
            self._next_check = time.monotonic() + self._pause_s
            self._listener = Thread(target=self._listen, args=(events,), daemon=True)
            self._listener.start()

    def _subscribe(self) -> tuple[EventStream, list[Container]]:
        """Subscribe to events, and read the containers, the live ones of which may have started unnoticed."""
        events = self._engine.events(f"{APP_ID}={self._app_id}")
        try:
            found = self._engine.containers(f"{APP_ID}={self._app_id}")  # subscribed first: nothing is missed
            live = {each.id for each in found if each.live}
            over = not live and self._is_over()
        except BaseException:
            events.close()
            raise
        with self._changed:
            again = self._events is not None
            self._removed.update(self._known.difference(each.id for each in found))
            self._known.update(each.id for each in found)
            for container in live if again else ():
                self._starts[container] = self.starts(container) + 1
            self._live, self._over, self._events = live, over, events
            self._changed.notify_all()
        if self._closed:
            events.close()
        return events, found

    @property
    def over(self) -> bool:
        return self._over

    def starts(self, container: str) -> int:
        """The number of starts of a container since `begin`."""
        return self._starts.get(container, 0)

    def had_ended(self, container: str) -> bool:
        """Whether a container had ended before `begin`: all output of this run can be read."""
        return container in self._ended_before

    def wait(
        self, container: str, starts: int, *, until: float | None, is_closed: Callable[[], bool]
    ) -> str | None:
        """Wait for the app's end (None), or the container's next start or removal ("start", "removal").

        Args:
            starts: of the container, before its log was read.
            until: epoch seconds; the end of the wait in any case.

        Raises EngineError when the event stream has failed, and could not be opened again for long.
        """
        while True:
            with self._changed:
                if self._error is not None:
                    raise self._error
                if self.starts(container) != starts:
                    return "start"
                if self._over or self._closed or is_closed() or (until is not None and time.time() > until):
                    return None
                if container in self._removed:
                    return "removal"
                left_s = self._next_check - time.monotonic()
                if left_s > 0:
                    rest_s = left_s if until is None else min(left_s, max(0.0, until - time.time()) + 0.001)
                    self._changed.wait(rest_s)
                    continue
            self._check_end()

    def wake(self) -> None:
        """Wake the waiting readers, so that they notice when they were closed."""
        with self._changed:
            self._changed.notify_all()

    def pause(self, seconds: float, is_closed: Callable[[], bool] = lambda: False) -> None:
        """Sleep, until the app or the reader is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or is_closed(), seconds)

    def close(self) -> None:
        """Close the event stream, and end the wait of every reader."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        with self._begun:
            if self._events is not None:
                self._events.close()
            if self._listener is not None:
                self._listener.join(_LEAVE_S)

    def _listen(self, events: EventStream) -> None:
        patience = Patience(self._engine.host, sleep=self.pause)
        try:
            while not (self._over or self._closed):
                try:
                    self._read(events)
                    return
                except EngineError as error:
                    patience.wait(error)
                if not self._closed:
                    events, _ = patience.persist(self._subscribe)
        except EngineError as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _read(self, events: EventStream) -> None:
        for event in events:
            if self._apply(event):
                self._pause_s = _FIRST_CHECK_S
                self._check_end(wait=True)

    def _apply(self, event: Event) -> bool:
        """Apply an event. Returns whether the app may have ended by it."""
        container = event.container_id
        with self._changed:
            if event.action == "start":
                self._live.add(container)
                self._starts[container] = self.starts(container) + 1
            elif event.action in ("die", "destroy"):
                self._live.discard(container)
                if event.action == "destroy":
                    self._removed.add(container)
            elif event.action != "rename":
                return False
            self._changed.notify_all()
            # An app does not end while a container runs: no check is needed.
            return not self._live

    def _check_end(self, *, wait: bool = False) -> None:
        """Check whether the app has ended; one thread at a time does it for the others."""
        if not self._checking.acquire(blocking=wait):
            with self._changed:
                self._changed.wait(0.05)
            return
        try:
            over = self._looks_over()
            with self._changed:
                self._over = self._over or over
                self._next_check = time.monotonic() + self._pause_s
                self._pause_s = min(2 * self._pause_s, _LAST_CHECK_S)
                self._changed.notify_all()
        finally:
            self._checking.release()

    def _looks_over(self) -> bool:
        try:
            return self._is_over()
        except EngineError as error:
            if not may_pass(error):
                raise
            return False  # the event stream shows whether the engine has gone
