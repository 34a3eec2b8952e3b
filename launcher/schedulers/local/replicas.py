"""The processes of an app: start them, copy their output, detect their ends, stop them and their descendants.

The first process of a replica leads its own session and process group. Until the exit status of the leader
is collected, the number of the group cannot be reused and the group may be signalled; afterwards, descendants
of this process are signalled one by one.
"""

import os
import resource
import time

from launcher.holding.use import of_child, of_rest
from launcher.schedulers.local import kernel
from launcher.schedulers.local.logwriter import STDERR, STDOUT, ReplicaLog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from launcher.holding.use import Measured
    from launcher.schedulers.local.logwriter import LogWriter
    from launcher.schedulers.local.spawn import Spawner
    from launcher.schedulers.loop import Loop

DRAIN_S = 0.5
"""How long the rest of a replica's group may run, and its pipes stay open, after its leader ended."""

FIRST_BYTES = 4096
"""The buffer for output at first: many replicas print little, and each supervisor has a buffer of its own."""
PIPE_BYTES = 64 * 1024
BIG_PIPE_BYTES = 1024 * 1024
MAX_READS = 2 * BIG_PIPE_BYTES // PIPE_BYTES  # empties any pipe, and bounds reading from a busy one
FIRST_RETRY_S, LAST_RETRY_S = 0.005, 1.0
KILL_ROUNDS = 100  # these take a few milliseconds

NO_PROBE: "Mapping[str, Any]" = {}

IDLE, RUNNING, ENDING, ENDED = range(4)
"""States of a replica: not (re)started, leader running, leader ended but not its group or pipes, ended."""


class RunningRole:
    """One role: its replicas, and the rules for their processes.

    common: the variables that most of its replicas share.
    """

    __slots__ = ("common", "name", "probe", "replicas")

    def __init__(self, name: str, common: "Mapping[str, str]") -> None:
        self.name = name
        self.common = common
        self.probe: Mapping[str, Any] = NO_PROBE
        self.replicas: list[Replica] = []


class Replica:
    """One replica; `packed` is its packed start request. There may be thousands, so its values are small."""

    __slots__ = (
        "code", "ended_ns", "err", "interrupted", "k", "kill_at", "late", "log", "oom", "out", "packed",
        "pid", "ready", "restarts", "role", "signal", "state", "stopped", "use",
    )  # fmt: skip

    def __init__(self, role: "RunningRole", k: int, packed: bytes, log: "ReplicaLog") -> None:
        self.role = role
        self.k = k
        self.packed = packed
        self.log = log
        self.restarts = 0  # all restarts, whatever their reason
        self.state = IDLE
        self.pid = self.out = self.err = -1
        self._forget()

    def begin(self, pid: int, out: int, err: int) -> None:
        self._forget()
        self.state = RUNNING
        self.pid, self.out, self.err = pid, out, err

    def _forget(self) -> None:
        self.code = self.signal = self.ended_ns = 0
        self.oom = self.ready = False
        self.use: Measured = ()  # known once its leader has ended
        self.late = ""  # why it failed, if it was not ready in time
        self.stopped = False  # the supervisor sent it TERM
        self.interrupted = False  # its leader ended after TERM
        self.kill_at = 0.0  # monotonic time at which its remaining processes are killed; 0.0: no deadline


class Replicas:
    """The processes of all replicas of an app. `on_end` is called once per start of a replica, at its end."""

    def __init__(
        self, loop: "Loop", spawner: "Spawner", logs: "LogWriter", on_end: "Callable[[Replica], None]"
    ) -> None:
        self._loop = loop
        self._spawner = spawner
        self._logs = logs
        self._on_end = on_end
        self.others: dict[int, Callable[[int], None]] = {}  # children other than replicas, by pid
        self._by_pid: dict[int, Replica] = {}  # pid of a leader whose exit status is not collected → replica
        self._pipes: tuple[dict[int, Replica], dict[int, Replica]] = ({}, {})  # by kind: stdout, stderr
        self._ending: dict[Replica, None] = {}
        self._buffer = memoryview(bytearray(FIRST_BYTES))
        self._enlarged: set[int] = set()  # pipes that are larger than usual
        self._rest_s = [0.0, 0.0]
        self._oom_kills = kernel.oom_kills()
        loop.on_output = self.read

    @property
    def are_left(self) -> bool:
        """Whether any replica has not ended yet."""
        return bool(self._by_pid or self._ending)

    def take_rest(self) -> "Measured":
        """The use, since the last call, of processes that outlived their replica; empty for none."""
        used, self._rest_s = of_rest(*self._rest_s), [0.0, 0.0]
        return used

    def start(self, replica: "Replica") -> None:
        """Start a replica. Raises SpawnError."""
        pid, out, err = self._spawner.spawn(replica.packed, replica.role.common, replica.restarts)
        replica.begin(pid, out, err)
        self._by_pid[pid] = replica
        for kind, fd in ((STDOUT, out), (STDERR, err)):
            self._pipes[kind][fd] = replica
            self._loop.add(fd)
        if replica.restarts:
            self._logs.mark_restart(replica.log)
        else:
            self._logs.begin(replica.log)

    def stop(self, replicas: "Iterable[Replica]", grace_s: float) -> None:
        """Send TERM to the groups of `replicas`, and KILL to their remaining processes after `grace_s`.

        Replicas that are already stopping with a later deadline only get the new deadline.
        """
        self.reap()  # replicas that have ended by now do not count as stopped
        kill_at = time.monotonic() + grace_s
        stopping = [
            (each, each.pid)
            for each in replicas
            if each.state in (RUNNING, ENDING) and (not each.stopped or each.kill_at > kill_at)
        ]
        for replica, pid in stopping:
            replica.kill_at = kill_at
            if replica.stopped:
                continue
            replica.stopped = True
            signal = kernel.signal_group if replica.state == RUNNING else kernel.signal_rest
            if signal(pid, kernel.SIGTERM):
                signal(pid, kernel.SIGCONT)  # a suspended process does not handle TERM
            self._end_if_done(replica)

        def expire() -> None:
            for replica, pid in stopping:
                self._expire(replica, pid)

        if stopping:
            self._loop.after(grace_s, expire)

    def read(self, fd: int) -> None:
        """Copy the data in a pipe to the logs."""
        replica = self._pipes[STDOUT].get(fd) or self._pipes[STDERR].get(fd)
        if replica is None:  # the pipe was closed earlier in this turn
            return
        self._copy(fd)
        self._end_if_done(replica)

    def reap(self) -> bool:
        """Collect the exit statuses of ended children; False when no child is left."""
        adopted = False
        try:
            while (ended := os.wait4(-1, os.WNOHANG))[0]:
                pid, status, used = ended
                replica = self._by_pid.pop(pid, None)
                if replica:
                    floor = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                    replica.use = of_child(used, floor)
                    self._leader_ended(replica, os.waitstatus_to_exitcode(status))
                elif pid in self.others:
                    self.others.pop(pid)(os.waitstatus_to_exitcode(status))
                else:
                    adopted = True
                    self._rest_s[0] += used.ru_utime
                    self._rest_s[1] += used.ru_stime
        except ChildProcessError:
            return False
        finally:
            if adopted:  # the child may have been the last process of a group
                for replica in list(self._ending):
                    self._end_if_done(replica)
        return True

    def sweep(self, then: "Callable[[], None]", retry_s: float = FIRST_RETRY_S) -> None:
        """KILL all descendants of this process, and call `then` when none is left.

        To be called after every replica has ended: then the pipes hold the last output.
        """
        if self.reap() and self._kill_descendants():
            self._loop.after(retry_s, lambda: self.sweep(then, min(2 * retry_s, LAST_RETRY_S)))
            return
        for pipes in self._pipes:
            for fd in list(pipes):
                self._empty(fd)
                self._close(fd)
        self._logs.close_all()
        then()

    def _kill_descendants(self) -> bool:
        """KILL all descendants of this process; returns whether some may be left.

        A process that keeps forking and exiting is gone before a scan has ended: its child is killed as soon
        as this process has adopted it.
        """
        kernel.kill_descendants()
        for _ in range(KILL_ROUNDS):
            kernel.kill_children()
            if not self.reap():
                return False
        return True

    def kill_all(self) -> None:
        """KILL all processes of the app without any bookkeeping: the last action of a failing supervisor."""
        for pid in self._by_pid:
            kernel.signal_group(pid, kernel.SIGKILL)
        patience = time.monotonic() + LAST_RETRY_S
        while kernel.kill_descendants() and time.monotonic() < patience:
            time.sleep(FIRST_RETRY_S)

    def _leader_ended(self, replica: "Replica", code: int) -> None:
        replica.state = ENDING
        replica.interrupted = replica.stopped
        replica.ended_ns = time.time_ns()
        replica.code, replica.signal = (128 - code, -code) if code < 0 else (code, 0)
        if replica.signal == kernel.SIGKILL and not replica.stopped:
            before, self._oom_kills = self._oom_kills, kernel.oom_kills()
            replica.oom = self._oom_kills > before
        self._ending[replica] = None
        self._end_if_done(replica)
        if replica.state == ENDED:
            return
        pid = replica.pid
        if not replica.stopped:
            replica.kill_at = time.monotonic() + DRAIN_S
            self._loop.after(DRAIN_S, lambda: self._expire(replica, pid))
        elif replica.kill_at <= time.monotonic():
            self._kill_rest(replica, pid)

    def _end_if_done(self, replica: "Replica") -> None:
        """End a replica whose leader and group are gone, and whose pipes are closed (or that was stopped)."""
        if replica.state != ENDING or kernel.signal_group(replica.pid, 0):
            return
        if self._drained(replica) or replica.stopped:
            self._end(replica)

    def _expire(self, replica: "Replica", pid: int) -> None:
        """KILL a replica at its deadline, unless it was restarted or its deadline was moved."""
        if replica.pid != pid or not replica.kill_at or time.monotonic() < replica.kill_at:
            return
        if replica.state == RUNNING:
            kernel.signal_group(pid, kernel.SIGKILL)
        else:
            self._kill_rest(replica, pid)

    def _kill_rest(self, replica: "Replica", pid: int, retry_s: float = FIRST_RETRY_S) -> None:
        """KILL the rest of the leader's session until none is left, then end the replica."""
        if replica.pid != pid or replica.state != ENDING:
            return
        if kernel.signal_rest(pid, kernel.SIGKILL):
            longer = min(2 * retry_s, LAST_RETRY_S)
            self._loop.after(retry_s, lambda: self._kill_rest(replica, pid, longer))
        else:
            self._drained(replica)
            self._end(replica)

    def _end(self, replica: "Replica") -> None:
        replica.state = ENDED
        del self._ending[replica]
        self._logs.close(replica.log)
        self._on_end(replica)

    def _drained(self, replica: "Replica") -> bool:
        """Read the pipes of a replica until they are empty; returns whether they are closed."""
        for fd in (replica.out, replica.err):
            if fd >= 0:
                self._empty(fd)
        return replica.out < 0 and replica.err < 0

    def _empty(self, fd: int) -> None:
        for _ in range(MAX_READS):
            if not self._copy(fd):
                break

    def _copy(self, fd: int) -> bool:
        """Copy one portion from a pipe to the logs; False when the pipe is empty or closed."""
        kind = STDOUT if fd in self._pipes[STDOUT] else STDERR
        try:
            size = os.readv(fd, (self._buffer,))
        except BlockingIOError:
            return False
        if size == 0:
            self._close(fd)
            return False
        self._logs.append(self._pipes[kind][fd].log, kind, self._buffer[:size])
        if size >= PIPE_BYTES // 2 and fd not in self._enlarged:  # its writer waits less often then
            self._enlarged.add(fd)
            kernel.enlarge_pipe(fd, BIG_PIPE_BYTES)
        wanted = BIG_PIPE_BYTES if self._enlarged else PIPE_BYTES
        if size == len(self._buffer) < wanted:
            self._buffer = memoryview(bytearray(wanted))
        return True

    def _close(self, fd: int) -> None:
        replica = self._pipes[STDOUT].pop(fd, None) or self._pipes[STDERR].pop(fd, None)
        if replica is None:
            return
        self._enlarged.discard(fd)
        self._loop.remove(fd)
        os.close(fd)
        if fd == replica.out:
            replica.out = -1
        elif fd == replica.err:
            replica.err = -1
