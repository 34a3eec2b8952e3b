"""The event loop of a process: descriptors, signals, times; a steady clock; messages between two processes.

Without a time to wait for, the loop has no timeout.

Supervisors, which stay small, and the programs of a cluster, Python >= 3.6, run it: it imports little, and
only from the standard library.
"""

import _signal  # type: ignore[import-not-found]  # `signal` loads enum and re
import marshal
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Optional

LONGEST_S = 2_000_000.0
"""The longest wait in s that every system accepts: a longer wait is made of several."""

CLOCK_SET_S = 1.0
"""The smallest step of the system's clock, in s, that counts as a change of the clock."""


class SteadyClock:
    """A clock that goes on, as time passes, from the time of the system at which it was made.

    With it, an app's time limit and pauses keep their length when the system's clock is set.
    """

    def __init__(self) -> None:
        self._booted_at = time.time() - _uptime_s()  # by the clock as it is set now

    def now(self) -> float:
        """Return epoch seconds, by the system's clock as it was set before the last fact `clock`."""
        return self._booted_at + _uptime_s()

    def set_since(self) -> "Optional[dict[str, Any]]":
        """The fact `clock` where the system's clock was set since the last call, else None."""
        by = time.time() - self.now()
        if abs(by) < CLOCK_SET_S:
            return None
        self._booted_at += by
        return {"e": "clock", "t": int(time.time() * 1e9), "by": round(by, 3)}


def _uptime_s() -> float:
    """Seconds since the boot of the machine, its sleep included, whatever its clock is set to."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Loop:
    """Calls the registered callbacks; none runs outside `turn`.

    Attributes:
        on_output: gets every readable descriptor that was added with `add`; these may be thousands, so they
            have no callback of their own.
        on_signals: gets the numbers of the received signals, in order, each once.
        suspended_s: for how long the process was suspended until the last SIGCONT, if it catches that signal
            and SIGTSTP.
    """

    def __init__(self, signals: "Iterable[int]" = ()) -> None:
        """Catch these signals; they are kept for the first turn."""
        self.on_output = _nothing  # type: Callable[[int], None]
        self.on_signals = _nothing  # type: Callable[[list[int]], None]
        self._poller = Poller()
        self._calls = {}  # type: dict[int, Callable[[], object]]
        self._times = []  # type: list[tuple[float, int, Callable[[], object]]]  # the next one first
        self.suspended_s, self._since = 0.0, None  # type: float, Optional[float]
        self._made = 0  # number of timers so far: those with the same time are called in this order
        self._woken, write = os.pipe()
        for fd in (self._woken, write):
            os.set_blocking(fd, False)
        if sys.version_info >= (3, 7):  # noqa: UP036  # clusters have Python 3.6
            _signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        else:
            _signal.set_wakeup_fd(write)
        for number in signals:
            _signal.signal(number, _nothing)
        self.watch(self._woken, self._take_signals)

    def add(self, fd: int) -> None:
        self._poller.add(fd)

    def remove(self, fd: int) -> None:
        self._poller.remove(fd)
        self._calls.pop(fd, None)

    def forget(self, fd: int) -> None:
        """Remove a descriptor that may never have been watched."""
        if fd in self._calls:
            self.remove(fd)

    def watch(self, fd: int, call: "Callable[[], object]") -> None:
        """Call `call` whenever `fd` can be read, or is at its end."""
        self._calls[fd] = call
        self._poller.add(fd)

    def watch_end(self, fd: int, call: "Callable[[], object]") -> None:
        """Call `call` while `fd` is hung up."""
        self._calls[fd] = call
        self._poller.add_end(fd)

    def now(self) -> float:
        """The time of the loop in s: monotonic, but it stands still while the process is suspended.

        That is from SIGTSTP until SIGCONT was taken: a process may be stopped and go on between two turns.
        """
        return time.monotonic() - self.suspended_s if self._since is None else self._since

    def stood_s(self) -> float:
        """For how long this time has stood still so far: `suspended_s` and the present suspension."""
        return time.monotonic() - self.now()

    def after(self, seconds: float, call: "Callable[[], object]") -> None:
        """Call `call` once, `seconds` from now. There is no way to cancel it."""
        self._made += 1
        timer = (self.now() + seconds, self._made, call)
        low, high = 0, len(self._times)
        while low < high:  # its place, by halves: `heapq` and `bisect` would load modules
            middle = (low + high) // 2
            if self._times[middle] < timer:
                low = middle + 1
            else:
                high = middle
        self._times.insert(low, timer)

    def turn(self, until: "float | None" = None) -> None:
        """Wait for events, at most until a time of the loop, and call their callbacks. 0.0: only check."""
        if self._times and (until is None or self._times[0][0] < until):
            until = self._times[0][0]
        wait_s = None if until is None else until - self.now()
        if wait_s is not None and wait_s > 0 and self._since is not None:
            wait_s = None  # no time comes before SIGCONT
        for fd in self._poller.wait(wait_s):
            call = self._calls.get(fd)
            if call:
                call()
            else:
                self.on_output(fd)
        if until and self.now() >= until:
            self._take_signals()  # a wait that a signal ends late does not report it
        while self._times and self._times[0][0] <= self.now():
            self._times.pop(0)[2]()

    def _take_signals(self) -> None:
        try:
            numbers = list(dict.fromkeys(os.read(self._woken, 65536)))
        except BlockingIOError:
            return
        if _signal.SIGTSTP in numbers:
            self._since = self.now()
        if _signal.SIGCONT in numbers and self._since is not None:
            self.suspended_s, self._since = time.monotonic() - self._since, None
        self.on_signals(numbers)


class Poller:
    """Finds the descriptors that can be read, or have hung up, by epoll, or poll where epoll is missing."""

    def __init__(self) -> None:
        epoll = getattr(select, "epoll", None)
        self._poll: Any = epoll() if epoll else select.poll()
        self._unit = 1 if epoll else 1000

    def add(self, fd: int) -> None:
        self._poll.register(fd, select.POLLIN)

    def add_end(self, fd: int) -> None:
        """Wait for the hang-up of `fd` alone, which every poll reports."""
        self._poll.register(fd, 0)

    def remove(self, fd: int) -> None:
        self._poll.unregister(fd)

    def wait(self, timeout_s: "float | None") -> "list[int]":
        """The descriptors with input or at their end; [] after `timeout_s` (None: never)."""
        limit = -1 if timeout_s is None else max(0.0, min(timeout_s, LONGEST_S)) * self._unit
        return [fd for fd, _ in self._poll.poll(limit)]


def _nothing(*_: object) -> None:
    """The Python signal handler; the loop needs only the number in the wakeup pipe."""


# -- messages ------------------------------------------------------------------------------------------------


CONTROL_FD, LOCK_FD = 3, 4
"""The descriptors of the supervisor's end of the socket and of the app's lock."""

CHUNK = 65536


def pack(message: "Any") -> bytes:
    body = marshal.dumps(message)
    return len(body).to_bytes(4, "little") + body


def send(fd: int, message: "Any") -> bool:
    """Write one message; False when the other end is closed."""
    rest = memoryview(pack(message))
    try:
        while rest:
            rest = rest[os.write(fd, rest) :]
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True


class Inbox:
    """Assembles messages from the pieces that arrive."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._pieces = bytearray()

    def read(self) -> bool:
        """Read available data, blocking until there is some; False when the other end is closed."""
        try:
            piece = os.read(self._fd, CHUNK)
        except ConnectionResetError:
            return False
        self._pieces += piece
        return bool(piece)

    def take(self) -> "Optional[Any]":
        """The next whole message; None while there is none."""
        end = 4 + int.from_bytes(self._pieces[:4], "little")
        if len(self._pieces) < max(4, end):
            return None
        pieces, self._pieces = self._pieces, self._pieces[end:]  # a new buffer: the old may have megabytes
        return marshal.loads(memoryview(pieces)[4:end])
