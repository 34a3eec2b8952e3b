"""Probe a replica: when the next probe is due, what is missing, and when the run is late.

`ProbedRun` does so within the loop of the process that runs the replica, and connects to a port without
blocking; containers are probed by their watcher. The module imports next to nothing: a supervisor stays
small, and the wrapper of a replica on a cluster, Python >= 3.6, uses it, too.
"""

import _socket
import errno
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping
    from typing import Any

    Steps = Generator[tuple[int, float, str], None, str]
    """The steps of a probe. Each step yields the descriptor to wait for (-1 for none), the longest wait in
    seconds, and the request without an answer ("" for none). The last step returns what is missing, ""
    when the replica is ready."""

HOSTS = ((_socket.AF_INET, "127.0.0.1"), (_socket.AF_INET6, "::1"))
"""The families and addresses of localhost: a server may listen on either."""

ANSWER_S = 5.0
"""How long a connection and its answer may take, together."""

CONNECT_S = 0.005  # on one machine a connection takes microseconds, unless the listener's queue is full
ENOUGH = len(b"HTTP/1.1 200")  # bytes of an answer that show whether it is good
UNDECIDED = (errno.EINPROGRESS, errno.EALREADY)
SIGKILL = 9

FIRST_S = 0.01
"""The pause before the first probe; doubled from probe to probe up to the role's own pause."""

UNPROBED = "it was not probed yet"


class Probing:
    """The probes of one run of a replica.

    Args:
        probe: as `Probe.to_json` makes it.

    Attributes:
        timeout_s: seconds after its start when a replica that is not ready is late.
        why: what the last probe found missing, in one phrase.
    """

    __slots__ = ("_every_s", "_next_s", "probe", "timeout_s", "why")

    def __init__(self, probe: "Mapping[str, Any]") -> None:
        self.probe = probe
        self.timeout_s = probe.get("timeout", 60)  # type: float
        self.why = UNPROBED
        self._every_s = probe.get("every", 1)  # type: float
        self._next_s = FIRST_S

    def pause_s(self) -> float:
        """The pause before the next probe: each call returns a longer one."""
        pause_s, self._next_s = self._next_s, min(2 * self._next_s, self._every_s)
        return pause_s

    def note_wait(self, what: str, why: str) -> None:
        """Note that a request or command has no result yet, unless an earlier result of it is known."""
        if not self.why.startswith(what):
            self.why = f"{what} {why}"

    def late(self) -> str:
        """The sentence for a late replica: `not ready after 60 s: nothing listens on port 80`."""
        return f"not ready after {self.timeout_s:g} s: {self.why}"


class ProbedRun(Probing):
    """One probed run of a replica. It is made before the start, and stores the file's stamp of that time.

    Args:
        loop: has `watch`, `forget` and `after`.
        path: the path of the probe's file.
    """

    __slots__ = ("_before", "_fd", "_loop", "_path", "_pid", "_step", "_steps")

    def __init__(self, probe: "Mapping[str, Any]", loop: "Any", path: "Any" = "") -> None:
        Probing.__init__(self, probe)
        self._loop = loop
        self._path = path
        self._before = _stamp(path)
        self._pid = 0  # pid of a probe's command; 0 while none runs
        self._steps = None  # type: Any
        self._step = 0
        self._fd = -1  # the descriptor that the present step waits for

    def is_open(self) -> bool:
        """Whether the replica runs, is not being stopped, and was neither ready nor late."""
        raise NotImplementedError

    def on_ready(self) -> None:
        """Report the ready replica; called once."""
        raise NotImplementedError

    def on_late(self, why: str) -> None:
        """Report, with the sentence `why`, a replica whose time is up; called once."""
        raise NotImplementedError

    def start(self, argv: "list[str]", then: "Callable[[int], None]") -> "tuple[int, str]":
        """Start a command; call `then` with its exit code, -N for signal N. Returns its pid, or 0 and why."""
        raise NotImplementedError

    def hosts(self) -> "Iterable[tuple[int, str]]":
        """The (family, address) of each host at which a port is probed."""
        return HOSTS

    # -- in the loop ---------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin to probe the started replica."""
        self._loop.after(self.timeout_s, self._time_is_up)
        self._loop.after(self.pause_s(), self._probe)

    def has_file(self) -> bool:
        """Whether the replica has written the probe's file: one that ends with it was ready."""
        return "file" in self.probe and _stamp(self._path) not in (None, self._before)

    def end(self) -> None:
        """End the present probe."""
        self._close()
        for kill in (os.killpg, os.kill) if self._pid else ():  # the command's group may not exist yet
            try:
                kill(self._pid, SIGKILL)
            except OSError:
                pass

    def _time_is_up(self) -> None:
        is_late = self.is_open()
        self.end()
        if is_late:
            self.on_late(self.late())

    def _probe(self) -> None:
        if not self.is_open():
            return
        if "file" in self.probe:
            now, name = _stamp(self._path), self.probe["file"]
            if now is None:
                self._take(no_file(name))
            else:
                self._take("" if now != self._before else old_file(name))
        elif "command" in self.probe:
            self._run(list(self.probe["command"]))
        else:
            self._steps = ask(self.probe, self.hosts(), ANSWER_S)
            self._go_on()

    def _take(self, why: str) -> None:
        """Take the result of a probe. `why`: what was missing; "" when the replica is ready."""
        if not self.is_open():
            return
        if why:
            self.why = why
            self._loop.after(self.pause_s(), self._probe)
        else:
            self.on_ready()

    def _run(self, argv: "list[str]") -> None:
        def ended(code: int) -> None:
            self._pid = 0
            self._take(bad_end(argv[0], code))

        self._pid, why = self.start(argv, ended)
        if self._pid:
            self.note_wait(f"`{argv[0]}`", "has not ended yet")
        else:
            self._take(why)

    def _go_on(self) -> None:
        if not self.is_open():
            self._close()
            return
        try:
            self._fd, most_s, what = next(self._steps)
        except StopIteration as over:
            self._take(over.value)
            return
        if what:
            self.note_wait(what, "has no answer yet")
        step = self._step

        def go_on() -> None:
            if self._step == step:
                self._leave_step()
                self._go_on()

        if self._fd >= 0:
            self._loop.watch(self._fd, go_on)
        self._loop.after(most_s, go_on)

    def _leave_step(self) -> None:
        self._step += 1
        if self._fd >= 0:
            self._loop.forget(self._fd)
            self._fd = -1

    def _close(self) -> None:
        self._leave_step()
        if self._steps is not None:
            self._steps.close()


def _stamp(path: "Any") -> "Any":
    """Values that change with each write of a file: time in ns, inode, size; None without a file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


# -- port and http -----------------------------------------------------------------------------------------


def ask(probe: "Mapping[str, Any]", hosts: "Iterable[tuple[int, str]]", limit_s: float) -> "Steps":
    """Probe a port at each host (family, address), until one succeeds; `limit_s` is for all together."""
    port, path, until = probe["port"], probe.get("http"), time.monotonic() + limit_s
    why = f"nothing listens on port {port}"
    for family, host in hosts:
        try:
            sock = _socket.socket(family, _socket.SOCK_STREAM)
        except OSError:  # no IPv6 here
            continue
        try:
            sock.setblocking(False)
            code = yield from _connect(sock, (host, port), until)
            if code in (*UNDECIDED, errno.ETIMEDOUT):
                why = f"port {port} at {host} does not answer"
            elif code in (errno.EHOSTUNREACH, errno.ENETUNREACH) and family == _socket.AF_INET:
                why = f"port {port} at {host} cannot be reached: {os.strerror(code)}"
            elif not code:
                why = "" if path is None else (yield from _answer(sock, path, port, until, limit_s))
                if not why:
                    return ""
        finally:
            sock.close()
    return why


def _connect(sock: "Any", address: "tuple[str, int]", until: float) -> "Any":
    """Connect; returns the errno of a failure, 0 for a connection."""
    code = sock.connect_ex(address)
    while code in UNDECIDED and time.monotonic() < until:
        yield -1, CONNECT_S, ""
        code = sock.connect_ex(address)
    if code not in (0, errno.EISCONN):
        return code
    try:  # the connection's own port may be the probed port, if that is free
        return 0 if sock.getsockname() != sock.getpeername() else errno.ECONNREFUSED
    except OSError:  # the other side has closed the connection meanwhile
        return errno.ECONNREFUSED


def _answer(sock: "Any", path: str, port: int, until: float, limit_s: float) -> "Steps":
    """Make an HTTP request; returns the problem of the answer, "" for none."""
    what, answer = f"GET {path} on port {port}", b""
    request = f"GET {path} HTTP/1.0\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n"
    try:
        sock.send(request.encode())
    except OSError:  # the server may answer without reading
        pass
    while len(answer) < ENOUGH:
        left_s = until - time.monotonic()
        if left_s <= 0:
            return f"{what} has no answer within {round(limit_s, 1):g} s"
        yield sock.fileno(), left_s, what
        try:
            data = sock.recv(4096)
        except BlockingIOError:
            continue
        except OSError:  # the server has closed the connection
            break
        if not data:
            break
        answer += data
    bad = bad_answer(answer)
    return bad and f"{what} {bad}"


def taken_port(port: int) -> str:
    """The reason why a replica cannot listen on its port of this machine; "" when the port is free."""
    for family, host in HOSTS:
        try:
            sock = _socket.socket(family, _socket.SOCK_STREAM)
        except OSError:  # no IPv6 here
            continue
        try:
            sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
            sock.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return f"port {port} is in use by another process, so its probe would find that one"
        finally:
            sock.close()
    return ""


# -- sentences ---------------------------------------------------------------------------------------------


def bad_answer(answer: bytes) -> str:
    """Return the problem of the beginning of an HTTP answer, as a predicate; "" for 2xx and 3xx."""
    code = answer[9:12]
    if not answer.startswith(b"HTTP/1.") or not code.isdigit():
        return "has an answer that is not HTTP" if answer else "has no answer"
    return "" if code[:1] in (b"2", b"3") else f"answers {code.decode()}"


def no_file(name: str) -> str:
    return f"there is no file {name}"


def old_file(name: str) -> str:
    return f"the file {name} is older than the replica"


def bad_end(program: str, code: int) -> str:
    """Return the problem of an exit code, -N for signal N; "" for 0."""
    how = f"exited with {code}" if code >= 0 else f"was killed by signal {-code}"
    return f"`{program}` {how}" if code else ""
