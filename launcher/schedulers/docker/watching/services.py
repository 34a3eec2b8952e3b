"""The services of a process that watches many apps: its threads, and the samples that it takes.

An app goes on in steps, in a thread that may block, never two at a time. Each step ends with the events that
the app waits for, or with its end. Between its steps, an app takes only a few kB of the process.

The runs of containers are sampled for the events of their ends: no engine reports their use afterwards. A run
is sampled when its age has doubled: after 1, 2, 4 … s, and at least every 300 s. The CPU time of a sample is
that of the whole run so far, so that a lost sample, or watcher, loses only the maximum of memory. A run
shorter than 1 s has no sample, and the last sample of any other run misses up to half of the run.
"""

from __future__ import annotations

import os
import resource
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from threading import Condition, Lock, Thread
from typing import Any, NamedTuple, Protocol

from launcher.holding.use import SAMPLES
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import EngineError
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.client.streams import Event
from launcher.schedulers.docker.names import where
from launcher.schedulers.docker.watching.rendezvous import Connection
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


# -- samples -----------------------------------------------------------------------------------------------

FIRST_S, LONGEST_S = 1.0, 300.0
MOST = 4
"""How many requests a watcher makes at once."""


def pause_s(age_s: float) -> float:
    """The pause before the next sample of a run that was watched for `age_s`."""
    return min(max(age_s, FIRST_S), LONGEST_S)


class SampledRun:
    """One run of a container.

    Attributes:
        id: the id of the container.
        start: the start of the run by the engine's clock, epoch seconds.
        seen_at: the monotonic time from which it is watched.
        is_over: the run needs no further sample.
    """

    __slots__ = ("_cpu", "_memory", "id", "is_over", "seen_at", "start")

    def __init__(self, id: str, start: float) -> None:
        self.id, self.start = id, start
        self.seen_at = time.monotonic()
        self.is_over = False
        self._cpu = 0.0, 0.0
        self._memory = 0

    def take(self, user_s: float, system_s: float, memory: int) -> None:
        """Take a sample. A sample with less CPU time than before is of a container that has just ended."""
        self._cpu = max(self._cpu, (user_s, system_s), key=sum)
        self._memory = max(self._memory, memory)

    @property
    def use(self) -> list[Any] | None:
        """The field `use` for the event of its end; None without a sample."""
        if not (any(self._cpu) or self._memory):
            return None
        user_s, system_s = self._cpu
        return [round(user_s, 3), round(system_s, 3), self._memory, SAMPLES if self._memory else ""]


class Sampler:
    """Samples the runs of all apps of a watcher, in threads that end when no sample is due.

    Neither the loop of the watcher nor its pool waits for them. Each run is due again only after its sample,
    so that a slow engine gets fewer requests.

    Args:
        post: runs a call in the loop after a number of seconds. It may be called from any thread.
    """

    def __init__(self, engine: Engine, post: Callable[[Callable[[], object], float], object]) -> None:
        self._engine = engine
        self._post = post
        self._due: deque[SampledRun] = deque()
        self._threads = 0
        self._lock = Lock()

    def rest(self, run: SampledRun) -> None:
        """Schedule a sample of a run after its next pause. May be called from any thread."""
        self._post(partial(self._ask, run), pause_s(time.monotonic() - run.seen_at))

    def _ask(self, run: SampledRun) -> None:
        """Schedule a sample of a run as soon as a thread is free. Called in the loop."""
        if run.is_over:
            return
        with self._lock:
            self._due.append(run)
            if self._threads < MOST:
                try:
                    Thread(target=self._work, daemon=True).start()
                    self._threads += 1
                except RuntimeError:  # the machine is out of threads
                    self.rest(self._due.pop())

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._due:
                    self._threads -= 1
                    return
                run = self._due.popleft()
            try:
                if (found := self._engine.usage(run.id)) is not None:
                    run.take(*found)
                else:
                    run.is_over = True
            except EngineError:
                pass  # the next sample has everything but the memory of this one
            except Exception:
                traceback.print_exc()
            if not run.is_over:
                self.rest(run)


class AppSamples:
    """The sampled runs of one app. Its methods are called in the steps of the app.

    Args:
        sampler: None where the engine is not to be asked for samples.
    """

    __slots__ = ("_runs", "_sampler")

    def __init__(self, sampler: Sampler | None) -> None:
        self._sampler = sampler
        self._runs: dict[tuple[str, int], SampledRun] = {}

    def follow(self, containers: Iterable[Container]) -> None:
        """Begin to sample new runs, and end the samples of runs that are over."""
        if self._sampler is None:
            return
        before, self._runs = self._runs, {}
        for each in containers:
            if each.live and each.started_at is not None:
                run = before.get(where(each))
                if run is None or (run.id, run.start) != (each.id, each.started_at):
                    run = SampledRun(each.id, each.started_at)
                    self._sampler.rest(run)
                self._runs[where(each)] = run
        for place, run in before.items():
            run.is_over = self._runs.get(place) is not run

    def add_use(self, event: dict[str, Any]) -> None:
        """Add the use of a run to the event of its end, or of its restart by the engine."""
        if event["e"] not in ("exit", "restart"):
            return
        run = self._runs.get((event["role"], event["k"]))
        if run is None or event.get("id", run.id) != run.id:
            return
        # The start that the engine reports of one run may move back a little when the run ends.
        if (event.get("start") or run.start) <= run.start and (use := run.use):
            event["use"] = use
        del self._runs[event["role"], event["k"]]
        run.is_over = True

    def close(self) -> None:
        """End sampling."""
        for run in self._runs.values():
            run.is_over = True


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
