"""Waiting for what an app's containers do, and reading several logs at once."""

from __future__ import annotations

from queue import Empty, Queue
from threading import Thread, Timer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Protocol

    from launcher.schedulers.docker.client.events import EventStream
    from launcher.schedulers.docker.client.view import EngineView

    class Closable(Protocol):
        def close(self) -> None: ...


_FIRST_WAIT_S, _LAST_WAIT_S = 1.0, 30.0
_HELD = 64  # pieces, of all logs together, that wait for their reader


def wakeups(engine: EngineView, app_id: str) -> Iterator[EventStream]:
    """A connection at once, and again whenever something happens to the app's containers; it ends never.

    To look after each, and to close from another thread. Every now and then it wakes without an event: what
    an app's watcher writes down makes none.
    """
    wait_s = _FIRST_WAIT_S
    while True:
        with engine.events(f"launcher.app-id={app_id}") as events:
            alarm = Timer(wait_s, events.close)
            alarm.daemon = True
            alarm.start()
            try:
                yield events
                for _ in events:
                    yield events
            finally:
                alarm.cancel()
                alarm.join()
        wait_s = min(2 * wait_s, _LAST_WAIT_S)


def together(
    closables: Sequence[Closable], sources: Sequence[Iterable[bytes]]
) -> Iterator[tuple[int, bytes]]:
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
