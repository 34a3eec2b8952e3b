"""The supervisor's one loop: descriptors, signals, deadlines. With none due it sleeps without a timeout."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` loads enum and re
import os
import time
from _heapq import heappop, heappush  # heapq is mostly documentation, which would stay in memory

from launcher.schedulers.local import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Loop:
    """Calls the registered callbacks; none runs outside `turn`.

    `on_output` gets every readable descriptor that was added with `add`; there are thousands of them, which
    is why they have no callback of their own.
    """

    def __init__(self) -> None:
        self.on_output: Callable[[int], None] = _nothing
        self._poller = kernel.Poller()
        self._calls: dict[int, Callable[[], None]] = {}
        self._signals: dict[int, Callable[[int], None]] = {}
        self._deadlines: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._woken = -1

    def add(self, fd: int) -> None:
        self._poller.add(fd)

    def remove(self, fd: int) -> None:
        self._poller.remove(fd)
        self._calls.pop(fd, None)

    def forget(self, fd: int) -> None:
        """Remove a descriptor that may never have been watched."""
        if fd in self._calls:
            self.remove(fd)

    def watch(self, fd: int, call: Callable[[], None]) -> None:
        """Call `call` whenever `fd` can be read."""
        self._calls[fd] = call
        self._poller.add(fd)

    def watch_end(self, fd: int, call: Callable[[], None]) -> None:
        """Call `call` while `fd` is hung up."""
        self._calls[fd] = call
        self._poller.add_end(fd)

    def on_signal(self, signum: int, call: Callable[[int], None]) -> None:
        """Call `call` from the loop after a signal, never during another callback."""
        if self._woken < 0:
            self._woken, write = os.pipe()
            os.set_blocking(self._woken, False)
            os.set_blocking(write, False)
            _signal.set_wakeup_fd(write, warn_on_full_buffer=False)
            self.watch(self._woken, self._read_signals)
        self._signals[signum] = call
        _signal.signal(signum, _nothing)

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call `call` once, `seconds` from now. There is no way to cancel it."""
        self._count += 1
        heappush(self._deadlines, (time.monotonic() + seconds, self._count, call))

    def turn(self, *, wait: bool) -> None:
        """Wait (or only check) for events and call their callbacks."""
        timeout: float | None = None
        if not wait:
            timeout = 0.0
        elif self._deadlines:
            timeout = self._deadlines[0][0] - time.monotonic()
        for fd in self._poller.wait(timeout):
            call = self._calls.get(fd)
            if call:
                call()
            else:
                self.on_output(fd)
        while self._deadlines and self._deadlines[0][0] <= time.monotonic():
            heappop(self._deadlines)[2]()

    def _read_signals(self) -> None:
        try:
            arrived = set(os.read(self._woken, 65536))
        except BlockingIOError:
            return
        for signum in sorted(arrived):
            self._signals[signum](signum)


def _nothing(*_: object) -> None:
    """The Python signal handler; the number in the wakeup pipe is all the loop needs."""
