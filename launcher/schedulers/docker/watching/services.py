"""The services of a process that watches apps: calls in its loop, threads, limits and turns of its machine.

An app goes on in steps, in a thread that may block, never two at a time. Each step ends with the events that
the app waits for, or with its end. Between its steps, an app takes only a few kB of the process.
"""

from __future__ import annotations

import os
import resource
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from threading import Condition, Thread
from typing import Any, NamedTuple, Protocol

from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import EngineError
from launcher.schedulers.docker.client.streams import Event
from launcher.schedulers.docker.watching.rendezvous import Connection
from launcher.schedulers.docker.watching.samples import Sampler
from launcher.schedulers.loop import Loop
from launcher.specs.attempt import StoodOn

_KEPT = 2  # idle threads, which cost memory and no time
_USUAL = 8  # with more threads the engine is the limit, as long as calls are short
_MOST_THREADS = 1024
_LATE_S = 0.02
_UNLIMITED = 1 << 20


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


# -- calls in the loop -------------------------------------------------------------------------------------


class Calls:
    """The calls that other threads have run in the loop of the process."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._posted: deque[Callable[[], object]] = deque()
        self._woken, self._bell = os.pipe()
        for fd in (self._woken, self._bell):
            os.set_blocking(fd, False)
        loop.watch(self._woken, self._run)

    def post(self, call: Callable[[], object], after_s: float = 0.0) -> None:
        """See `WatchingProcess.post`."""
        self._posted.append(partial(self._loop.after, after_s, call) if after_s else call)
        with suppress(BlockingIOError):  # full: the loop is about to wake
            os.write(self._bell, b"w")

    def _run(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._woken, 65536)
        while self._posted:
            with reporting():
                self._posted.popleft()()


@contextmanager
def reporting() -> Iterator[None]:
    """Report an error of one client or app instead of raising it: the others go on."""
    try:
        yield
    except Exception:
        traceback.print_exc()


# -- threads -----------------------------------------------------------------------------------------------


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
                for _ in range(min(len(self._calls), max(self._threads, 1), _MOST_THREADS - self._threads)):
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


# -- limits and turns of the machine -----------------------------------------------------------------------


def open_many() -> int:
    """Raise the limit of open files as far as allowed; returns the limit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    found, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return found if found > 0 else _UNLIMITED


def answer_about_turns(connection: Connection, message: Mapping[str, Any]) -> None:
    """Answer a client about the tables of turns, and hang up. Then have the shares of dead holders cleared.

    It may block.
    """
    from launcher.schedulers.leftovers import start_clearing
    from launcher.turns.machine import left_tickets, start_at_once, tables_report

    try:
        is_start = message["op"] == "now"
        connection.answer_in_full(start_at_once(message["apps"]) if is_start else tables_report())
    except Exception:
        traceback.print_exc()
    finally:
        connection.close()
    if tickets := left_tickets():
        with suppress(OSError):  # the first app in line clears them
            os.waitpid(start_clearing(tickets), 0)
