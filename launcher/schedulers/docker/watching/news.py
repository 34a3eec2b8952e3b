"""What a watcher hears while it is asleep: the engine's events about its app, and its client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue

from launcher.schedulers.docker.client.container import Container
from launcher.schedulers.docker.client.events import Event, EventStream
from launcher.schedulers.docker.records import record

_LATE_S = 0.5  # by how much an engine may tell of an end later than show it
_DEADLY = ("2", "3", "9", "15")
_BY_SIGNAL = frozenset(128 + int(signal) for signal in _DEADLY)
_KILLED = 137


class News:
    """Told by threads, taken by the watcher.

    Attributes:
        changed: containers that something has happened to since somebody looked at them.
        oom: that were told to have run out of memory; a busy engine tells of it in an event alone.
        by_hand: stopped by nobody of us, and not seen to have ended yet.
        orphaned: whoever attached the app to itself has ended, or
        closed: has let go of it.
    """

    def __init__(self, app_dir: str) -> None:
        self.changed: set[str] = set()
        self.oom: set[str] = set()
        self.by_hand: set[str] = set()
        self.orphaned = False
        self.closed = False
        self._app_dir = app_dir
        self._dead: set[str] = set()
        self._heard_out: set[str] = set()
        self._queue: SimpleQueue[Event | Exception | None] = SimpleQueue()

    def relay(self, events: EventStream) -> None:
        """Hand on what the engine tells; the last thing is that it tells no more."""
        queue = self._queue
        try:
            for event in events:
                if not event.action.startswith(("exec_", "health_status", "top", "attach")):
                    queue.put(event)
        except Exception as error:
            queue.put(error)

    def listen(self, words: Iterator[str]) -> None:
        """Hear the client until it ends, which is news as well."""
        for word in words:
            self.closed = self.closed or word == "close"
        self.orphaned = True
        self._queue.put(None)

    def reconnect(self) -> None:
        """Forget what an engine told that has gone: what it stops as it ends, nobody's hand has stopped."""
        self.by_hand.clear()
        self._dead.clear()
        self._heard_out.clear()
        self._queue = SimpleQueue()  # what still comes of the last connection goes nowhere

    def wait(self, deadline: float | None) -> None:
        """For the next thing to happen, or until `deadline` (epoch seconds); asleep meanwhile.

        Raises what broke the connection.
        """
        timeout_s = None if deadline is None else max(0.0, deadline - time.time())
        try:
            self._take(self._queue.get(timeout=timeout_s))
            while True:
                self._take(self._queue.get_nowait())
        except Empty:
            return

    def hear_out(self, ended: Container) -> None:
        """Wait for what the engine may tell later than show: who sent the signal, or want of memory."""
        if ended.exit_code not in _BY_SIGNAL or ended.id in self._heard_out:
            return
        self._heard_out.add(ended.id)
        now = time.time()
        self._hear(now + _LATE_S, lambda: ended.id in self._dead)
        if ended.exit_code == _KILLED and not ended.oom and ended.id not in self.by_hand:
            self._hear(min(now, ended.ended_at or now) + _LATE_S, lambda: ended.id in self.oom)

    def _hear(self, deadline: float, enough: Callable[[], bool]) -> None:
        while not enough():
            try:
                self._take(self._queue.get(timeout=max(0.0, deadline - time.time())))
            except Empty:
                return

    def _take(self, news: Event | Exception | None) -> None:
        if news is None:
            return
        if isinstance(news, Exception):
            raise news
        container = news.container_id
        self.changed.add(container)
        deadly = news.action == "kill" and news.attributes.get("signal") in _DEADLY
        if deadly or news.action == "stop":
            told = record.journal(self._app_dir)
            if told is None or container not in told.told:
                self.by_hand.add(container)
        elif news.action == "die":
            self._dead.add(container)
        elif news.action == "oom":
            self.oom.add(container)
        elif news.action == "start":
            for heard in (self.oom, self.by_hand, self._dead, self._heard_out):
                heard.discard(container)
