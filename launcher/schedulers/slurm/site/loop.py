"""Wait for output, signals and times. Python >= 3.6, the standard library alone."""

import heapq
import os
import select
import signal
import time
from typing import Any


class Loop:
    """Calls a function for each file that can be read, each signal, and each time that has come.

    Attributes:
        on_signals: called with the numbers of those that came, in their order.
    """

    def __init__(self, numbers: Any) -> None:
        """Catch these signals. They wait for the first turn."""
        self._poll = select.poll()
        self._readers = {}  # type: dict[int, Any]
        self._timers = []  # type: list[tuple[float, int, Any]]
        self._made = 0  # timers so far: those of one moment go off in their order
        self.on_signals = None  # type: Any
        self._wake, wake = os.pipe()
        for fd in (self._wake, wake):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake)
        for number in numbers:
            signal.signal(number, lambda *_: None)
        self.watch(self._wake, self._take_signals)

    def watch(self, fd: int, call: Any) -> None:
        """Call each time that there is something to read, or the end of it."""
        self._readers[fd] = call
        self._poll.register(fd, select.POLLIN)

    def forget(self, fd: int) -> None:
        del self._readers[fd]
        self._poll.unregister(fd)

    def after(self, seconds: float, call: Any) -> None:
        """Call once, so many seconds from now."""
        self._made += 1
        heapq.heappush(self._timers, (time.monotonic() + seconds, self._made, call))

    def turn(self, until: Any = None) -> None:
        """Wait for something to happen, at most until a monotonic time, and make the calls for it."""
        times = [self._timers[0][0]] if self._timers else []
        if until is not None:
            times.append(until)
        wait_ms = max(0, int((min(times) - time.monotonic()) * 1000) + 1) if times else None
        for fd, _ in self._poll.poll(wait_ms):
            if fd in self._readers:
                self._readers[fd]()
        while self._timers and self._timers[0][0] <= time.monotonic():
            heapq.heappop(self._timers)[-1]()

    def _take_signals(self) -> None:
        try:
            numbers = os.read(self._wake, 4096)
        except BlockingIOError:
            return
        self.on_signals(list(numbers))
