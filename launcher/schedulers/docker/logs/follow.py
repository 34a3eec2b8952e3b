"""Following the logs of an app: its events, heard once for all readers, and several logs at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from queue import Empty, Queue
from threading import Condition, Lock, Thread
from typing import TYPE_CHECKING, Protocol

from launcher.schedulers.docker.client.errors import EngineError
from launcher.schedulers.docker.client.events import Event, EventStream
from launcher.schedulers.docker.client.view import EngineView
from launcher.schedulers.docker.labels import APP_ID

if TYPE_CHECKING:

    class Closable(Protocol):
        def close(self) -> None: ...


_FIRST_CHECK_S, _LAST_CHECK_S = 1.0, 30.0
_HELD = 64  # pieces, of all logs together, that wait for their reader


class FollowedApp:
    """An app whose logs are followed, by any number of readers in any threads.

    One connection hears what happens to its containers, and the engine is asked about the app once for all
    readers: when nothing of it runs any more, and every now and then, since what its watcher writes down
    makes no event.

    Args:
        is_over: asks whether the app has ended: nothing more will be printed.
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
        self._live: set[str] = set()
        self._removed: set[str] = set()
        self._starts: dict[str, int] = {}
        self._pause_s = _FIRST_CHECK_S
        self._next_check = 0.0

    def begin(self) -> None:
        """Listen, and look at the app. Called by every reader before it reads; the first one does it."""
        with self._begun:
            if self._listener is not None or self._over or self._closed:
                return
            events = self._engine.events(f"{APP_ID}={self._app_id}")
            try:
                found = self._engine.containers(
                    f"{APP_ID}={self._app_id}"
                )  # subscribed first: nothing is missed
                self._ended_before = frozenset(each.id for each in found if each.ended)
                self._live = {each.id for each in found if each.live}
                self._over = not self._live and self._is_over()
            except BaseException:
                events.close()
                raise
            if self._over:
                events.close()
                return
            self._events = events
            self._next_check = time.monotonic() + self._pause_s
            self._listener = Thread(target=self._listen, args=(events,), daemon=True)
            self._listener.start()

    @property
    def over(self) -> bool:
        return self._over

    def starts(self, container: str) -> int:
        """How often it was started since `begin`."""
        return self._starts.get(container, 0)

    def had_ended(self, container: str) -> bool:
        """Whether it had ended before `begin`: all that this run of it printed can be read."""
        return container in self._ended_before

    def wait(
        self, container: str, starts: int, *, until: float | None, is_closed: Callable[[], bool]
    ) -> str | None:
        """Wait for the app's end (None), or the container's next start or removal ("start", "removal").

        Args:
            starts: of the container, before its log was read.
            until: epoch seconds; the end of the wait in any case.

        Raises EngineError when the engine cannot be heard any more.
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
        """Let those who wait see that they were closed."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """End it, and the wait of every reader."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        with self._begun:
            if self._events is not None:
                self._events.close()
            if self._listener is not None:
                self._listener.join()

    def _listen(self, events: EventStream) -> None:
        try:
            for event in events:
                if self._apply(event):
                    self._pause_s = _FIRST_CHECK_S
                    self._check_end(wait=True)
        except EngineError as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _apply(self, event: Event) -> bool:
        """Note an event; whether the app may have ended by it."""
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
            # Nothing ends while some of it runs: looking each time would take time.
            return not self._live

    def _check_end(self, *, wait: bool = False) -> None:
        """Ask whether the app has ended; one thread at a time does, the others need not."""
        if not self._checking.acquire(blocking=wait):
            with self._changed:
                self._changed.wait(0.05)
            return
        try:
            over = self._is_over()
            with self._changed:
                self._over = self._over or over
                self._next_check = time.monotonic() + self._pause_s
                self._pause_s = min(2 * self._pause_s, _LAST_CHECK_S)
                self._changed.notify_all()
        finally:
            self._checking.release()


def merge(closables: Sequence[Closable], sources: Sequence[Iterable[bytes]]) -> Iterator[tuple[int, bytes]]:
    """What several sources give, as it comes: (number of the source, bytes). One thread for each.

    When the reader leaves, or a source fails, all are closed (`closables`, one per source).
    """
    if len(sources) == 1:
        with_first = ((0, data) for data in sources[0])
        try:
            yield from with_first
        finally:
            closables[0].close()
        return
    waiting: Queue[tuple[int, bytes | BaseException | None]] = Queue(_HELD)
    threads = [
        Thread(target=_pump, args=(n, source, waiting), daemon=True) for n, source in enumerate(sources)
    ]
    for thread in threads:
        thread.start()
    try:
        left = len(sources)
        while left:
            number, data = waiting.get()
            if isinstance(data, BaseException):
                raise data
            if data is None:
                left -= 1
            else:
                yield number, data
    finally:
        for each in closables:
            each.close()
        _drain(waiting, threads)


def _pump(
    number: int, source: Iterable[bytes], into: Queue[tuple[int, bytes | BaseException | None]]
) -> None:
    try:
        for data in source:
            into.put((number, data))
    except BaseException as error:
        into.put((number, error))
    else:
        into.put((number, None))


def _drain(waiting: Queue[tuple[int, bytes | BaseException | None]], threads: Sequence[Thread]) -> None:
    """Let threads that wait for room come to their end."""
    while any(thread.is_alive() for thread in threads):
        try:
            waiting.get(timeout=0.05)
        except Empty:
            continue
