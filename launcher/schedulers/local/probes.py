"""Probe replicas until they are ready, within the supervisor's loop: no thread, no name resolution, no TLS.

Only apps with a probe load this module.
"""

from __future__ import annotations

import _socket
import errno
import os
import time

from launcher.schedulers import probes
from launcher.schedulers.local import kernel
from launcher.schedulers.local.replicas import RUNNING
from launcher.schedulers.local.spawn import SpawnError, unpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from launcher.schedulers.local.loop import Loop
    from launcher.schedulers.local.replicas import Replica, Replicas, RunningRole
    from launcher.schedulers.local.spawn import Spawner

    Stamp = tuple[int, int, int]
    """Time of the last write in ns, inode and size of a file."""

FIRST_S = 0.02
"""The pause before the first probe; doubled from probe to probe up to the one that the role asks for."""

ANSWER_S = 5.0
"""How long a connection or an answer may take."""

CONNECT_S = 0.005


class Watch:
    """The probes of one start of a replica."""

    __slots__ = ("child", "give_up_at", "pause_s", "pid", "probe", "replica", "sock", "stamp", "why")

    def __init__(self, replica: Replica, probe: Mapping[str, Any]) -> None:
        self.replica = replica
        self.pid = replica.pid
        self.probe = probe
        self.stamp: Stamp | None = None  # of the file before the start
        self.pause_s = FIRST_S
        self.sock: _socket.socket | None = None
        self.child = 0
        self.give_up_at = 0.0  # monotonic time at which a connection is given up
        self.why = "it was not probed yet"

    @property
    def is_open(self) -> bool:
        """Whether this start of the replica still runs, and is not ready."""
        replica = self.replica
        return (
            replica.pid == self.pid and replica.state == RUNNING and not replica.stopped and not replica.ready
        )


class Prober:
    """Calls `on_ready` once for each start of a replica, or `on_late` with the reason when its time is up."""

    def __init__(
        self,
        loop: Loop,
        spawner: Spawner,
        processes: Replicas,
        on_ready: Callable[[Replica], None],
        on_late: Callable[[Replica, str], None],
    ) -> None:
        self._loop = loop
        self._spawner = spawner
        self._processes = processes
        self._on_ready = on_ready
        self._on_late = on_late
        self._stamps: dict[Replica, Stamp | None] = {}  # of replicas that are about to start

    def prepare(self, replica: Replica) -> None:
        """Look at what is there before a replica starts: its port, which must be free, or its file.

        Raises SpawnError when another process listens on the port.
        """
        if not replica.k and not replica.restarts:
            self._check_port(replica.role)
        if "file" in replica.role.probe:
            self._stamps[replica] = _stamp(replica)

    def _check_port(self, role: RunningRole) -> None:
        why = probes.taken_port(role.probe["port"]) if "port" in role.probe else ""
        if why:
            raise SpawnError(why)

    def watch(self, replica: Replica) -> None:
        """Probe a replica that was just started."""
        watch = Watch(replica, replica.role.probe)
        watch.stamp = self._stamps.pop(replica, None)
        self._loop.after(watch.probe.get("timeout", 60), lambda: self._time_is_up(watch))
        self._loop.after(FIRST_S, lambda: self._probe(watch))

    def _probe(self, watch: Watch) -> None:
        if not watch.is_open:
            return
        probe = watch.probe
        if "file" in probe:
            self._result(watch, _missing_file(watch))
        elif "command" in probe:
            self._run(watch)
        else:
            self._connect(watch, list(probes.HOSTS))

    def _result(self, watch: Watch, why: str) -> None:
        """Take the result of a probe. `why`: what was missing; "" when the replica is ready."""
        if not watch.is_open:
            return
        if not why:
            self._on_ready(watch.replica)
            return
        watch.why = why
        self._loop.after(watch.pause_s, lambda: self._probe(watch))
        watch.pause_s = min(2 * watch.pause_s, watch.probe.get("every", 1))

    def _time_is_up(self, watch: Watch) -> None:
        is_late = watch.is_open
        self._close(watch)
        if watch.child:
            kernel.signal_group(watch.child, kernel.SIGKILL)
        if is_late:
            after_s = watch.probe.get("timeout", 60)
            self._on_late(watch.replica, f"not ready after {after_s:g} s: {watch.why}")

    # -- port and http -------------------------------------------------------------------------------------

    def _connect(self, watch: Watch, hosts: list[tuple[int, str]]) -> None:
        """Connect to the first of `hosts`; to the next one where nothing listens."""
        port = watch.probe["port"]
        if not hosts:
            self._result(watch, probes.nothing_listens(port))
            return
        family, host = hosts[0]
        try:
            watch.sock = _socket.socket(family, _socket.SOCK_STREAM)
        except OSError:  # no IPv6 here
            self._connect(watch, hosts[1:])
            return
        watch.sock.setblocking(False)
        watch.give_up_at = time.monotonic() + ANSWER_S
        self._connecting(watch, hosts, (host, port))

    def _connecting(self, watch: Watch, hosts: list[tuple[int, str]], address: tuple[str, int]) -> None:
        sock = watch.sock
        if sock is None or not watch.is_open:
            self._close(watch)
            return
        code = sock.connect_ex(address)
        if code in (0, errno.EISCONN) and _has_peer(sock):
            self._connected(watch, sock)
        elif code in (errno.EINPROGRESS, errno.EALREADY) and time.monotonic() < watch.give_up_at:
            # Here it takes microseconds; a full queue of the listener is what takes longer.
            self._loop.after(CONNECT_S, lambda: self._connecting(watch, hosts, address))
        else:
            self._close(watch)
            self._connect(watch, hosts[1:])

    def _connected(self, watch: Watch, sock: _socket.socket) -> None:
        path, port = watch.probe.get("http"), watch.probe["port"]
        if path is None:
            self._close(watch)
            self._result(watch, "")
            return
        answer = bytearray()
        what = probes.http_name(path, port)
        try:
            sock.send(probes.http_request(path, port))
        except OSError as error:
            self._close(watch)
            self._result(watch, f"{what}: {error.strerror}")
            return

        def read() -> None:
            try:
                data = sock.recv(4096)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            answer.extend(data)
            if data and len(answer) < probes.ENOUGH:
                return
            self._close(watch)
            self._result(watch, probes.bad_answer(what, bytes(answer)))

        def give_up() -> None:
            if watch.sock is sock:
                self._close(watch)
                self._result(watch, probes.no_answer_within(what, ANSWER_S))

        watch.why = f"{what} has no answer yet"
        self._loop.watch(sock.fileno(), read)
        self._loop.after(ANSWER_S, give_up)

    def _close(self, watch: Watch) -> None:
        if watch.sock is not None:
            self._loop.forget(watch.sock.fileno())
            watch.sock.close()
            watch.sock = None

    # -- command -------------------------------------------------------------------------------------------

    def _run(self, watch: Watch) -> None:
        argv = list(watch.probe["command"])
        replica = watch.replica
        try:
            pid = self._spawner.run(replica.packed, replica.role.common, argv, replica.restarts)
        except SpawnError as error:
            self._result(watch, str(error))
            return

        def ended(code: int) -> None:
            watch.child = 0
            self._result(watch, probes.bad_end(argv[0], code))

        watch.child = pid
        watch.why = probes.not_ended(argv[0])
        self._processes.others[pid] = ended


def _has_peer(sock: _socket.socket) -> bool:
    """Whether a connection stands, and not with itself: a free port may be the one that it comes from."""
    try:
        return bool(sock.getsockname() != sock.getpeername())
    except OSError:  # closed by the other side meanwhile
        return False


def _missing_file(watch: Watch) -> str:
    name = watch.probe["file"]
    found = _stamp(watch.replica)
    if found is None:
        return probes.no_file(name)
    return "" if found != watch.stamp else probes.old_file(name)


def _stamp(replica: Replica) -> Stamp | None:
    """What changes when the file of a replica's probe is written or made anew; None without a file."""
    folder = unpack(replica.packed, replica.role.common)[2]
    try:
        found = os.stat(os.path.join(folder, replica.role.probe["file"]))
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
