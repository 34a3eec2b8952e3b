"""The steps of an app in a process that watches many apps, the services of that process, and its threads.

An app goes on in steps, in a thread that may block, never two at a time. Each step ends with the events that
the app waits for, or with its end. Between its steps, an app takes only a few kB of the process.
"""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Callable
from threading import Condition, Thread
from typing import NamedTuple, Protocol

from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import EngineError
from launcher.schedulers.docker.client.streams import Event
from launcher.schedulers.docker.watching.samples import Sampler
from launcher.specs.attempt import StoodOn

_KEPT = 2  # idle threads, which cost memory and no time
_USUAL = 8  # with more threads the engine is the limit, as long as calls are short
_MOST = 1024
_LATE_S = 0.02


class Rest(NamedTuple):
    """The conditions that end the rest of an app, beside its events and messages.

    Attributes:
        for_s: seconds; None for a rest without a time.
        readable: descriptors, until one has input.
        hung_up: descriptors, until one hangs up.
    """

    for_s: float | None = None
    readable: tuple[int, ...] = ()
    hung_up: tuple[int, ...] = ()


OnEnd = Callable[["tuple[str, str] | Exception"], None]
"""A function that gets a needed job and the state in which it has ended, in any thread."""


class WatchingProcess(Protocol):
    """The process that watches apps. All methods may be called from any thread.

    Attributes:
        sampler: None for an engine behind ssh, where each request costs a process on the engine's machine.
    """

    engine: Engine
    sampler: Sampler | None

    def submit(self, call: Callable[[], object]) -> None:
        """Run a call in a thread that may block."""

    def post(self, call: Callable[[], object], after_s: float = 0.0) -> None:
        """Run a call that does not block in the loop of the process."""

    def follow_need(self, need: StoodOn, on_end: OnEnd) -> None:
        """Call `on_end` once a needed attempt has ended."""

    def origin(self) -> float:
        """The time from which events are needed at first, epoch seconds."""

    def happened(self, event: Event) -> None:
        """Take an event of any app of the engine. This method and the next two are called by the stream."""

    def connected(self) -> None:
        """Note that the stream is open, for the first time or again, with all events since the last one."""

    def disconnected(self, error: EngineError) -> None:
        """Note that the connection has ended."""


class Pool:
    """Runs calls in threads. A call that has waited too long for a thread gets a new one.

    So an app with long calls, such as a stop with a long grace period, delays no other app.

    Args:
        after: calls a function after a number of seconds, in the thread that calls `submit`.
    """

    def __init__(self, after: Callable[[float, Callable[[], object]], None]) -> None:
        self._after = after
        self._changed = Condition()
        self._calls: deque[tuple[float, Callable[[], object]]] = deque()
        self._threads = 0
        self._idle = 0
        self._is_timed = False

    def submit(self, call: Callable[[], object]) -> None:
        """Run a call in a thread, which prints its errors. Always called from the same thread."""
        with self._changed:
            self._calls.append((time.monotonic(), call))
            if self._idle >= len(self._calls):
                self._changed.notify()
            elif self._threads < _USUAL:
                self._start()
        self._check()

    def _check(self) -> None:
        """Double the threads if the oldest call has waited too long; while calls wait, check again later."""
        with self._changed:
            if self._calls and self._calls[0][0] + _LATE_S <= time.monotonic():
                for _ in range(min(len(self._calls), max(self._threads, 1), _MOST - self._threads)):
                    self._start()
            if self._is_timed or not self._calls:
                return
            self._is_timed = True
        self._after(_LATE_S, self._look_again)

    def _look_again(self) -> None:
        self._is_timed = False
        self._check()

    def _start(self) -> None:
        try:
            Thread(target=self._work, daemon=True).start()
        except RuntimeError:  # the machine is out of threads: the present ones go on
            return
        self._threads += 1

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._calls:
                    if self._idle >= _KEPT:
                        self._threads -= 1
                        return
                    self._idle += 1
                    self._changed.wait()
                    self._idle -= 1
                _, call = self._calls.popleft()
            try:
                call()
            except Exception:
                traceback.print_exc()
            del call  # an idle thread keeps no app in memory
