"""The client of a supervisor or a line holder: it starts such processes and sends them requests."""

from __future__ import annotations

import os
import resource
import select
from _socket import SHUT_WR, socketpair
from collections.abc import Mapping, Sequence
from contextlib import suppress
from signal import SIGKILL
from typing import TYPE_CHECKING, Any

from launcher import paths
from launcher.errors import SchedulerError, StartError
from launcher.schedulers import pids
from launcher.schedulers.ended_process import last_line_of
from launcher.schedulers.holder import NO_SIGPIPE, send_with, start_bare
from launcher.schedulers.local import appview
from launcher.schedulers.local.popen import PopenRequest, ReplicaParam
from launcher.schedulers.local.spawn import pack as pack_request
from launcher.schedulers.loop import CONTROL_FD, LOCK_FD, Inbox, pack
from launcher.specs.secret import SHORTEST_LITERAL, Secret, is_sensitive

if TYPE_CHECKING:
    from _socket import socket

    from launcher.specs.attempt import AttemptState
    from launcher.turns.line import Ask

_APP = b"a"


class SupervisorClient:
    """A spawned supervisor, by its pid and the client's end of the control socket.

    An attached app runs while the socket is open; it closes with this object and with the client's process. A
    fork of that process has a copy of the socket, and no part in the app.
    """

    def __init__(self, app_dir: str, pid: int, control: socket) -> None:
        self.app_dir = app_dir
        self.pid = pid
        self._attached_to = 0  # the pid of the client's process; 0 for a detached app
        self._control: socket | None = control

    def __del__(self) -> None:
        self.close()

    @property
    def attached(self) -> bool:
        """Whether the app is to end with this process."""
        return self._attached_to == os.getpid()

    @classmethod
    def spawn(cls, app_dir: str, lock_fd: int) -> SupervisorClient:
        """Start a supervisor for the app. It takes over the lock: the caller closes its copy of `lock_fd`."""
        pid, control = start_bare(
            "supervisor",
            "launcher.schedulers.local.supervisor",
            control=CONTROL_FD,
            descriptors={LOCK_FD: lock_fd},
            log=os.path.join(app_dir, "supervisor.err"),
        )
        return cls(app_dir, pid, control)

    def create(
        self,
        request: PopenRequest,
        environment: dict[str, str],
        *,
        attached: bool,
        secrets: Mapping[str, str] = {},
        output: str = "",
    ) -> None:
        """Let the supervisor prepare the app. Raises StartError naming role and command when it fails.

        Args:
            environment: the variables that its replicas inherit.
            secrets: the value of each reference in the request; handed over in memory, written nowhere.
            output: the output folder to make when the app starts; "" for none.
        """
        self._attached_to = os.getpid() if attached else 0
        unbuffered = {} if "PYTHONUNBUFFERED" in environment else {"PYTHONUNBUFFERED": "x"}
        self._ask(
            {
                "op": "create",
                "app_dir": self.app_dir,
                "handle": request.handle,
                "output": output,
                "attached": attached,
                "timeout_s": request.timeout_s,
                "grace_s": request.grace_s,
                "separate_streams": request.separate_streams,
                "log_max_bytes": (request.log_max_mb or 0) * 1_000_000,
                "secrets": _values_to_mask(request, environment, secrets),
                "roles": [_role(request, name, secrets, unbuffered) for name in request.role_params],
                "env": environment,
            }
        )

    def go(
        self,
        needs: Sequence[tuple[str, str]] = (),
        turn: Ask | None = None,
        compared: Mapping[str, list[str]] | None = None,
    ) -> AttemptState:
        """Start every replica, or have the app wait, and return once that is recorded.

        Returns running, waiting or queued. Raises StartError, with the app removed, when a replica cannot be
        started.

        Args:
            needs: job and folder of the apps that have to succeed first.
            turn: the request of the app to this machine.
            compared: the files to compare; see `Comparison`.
        """
        ask = turn and turn.to_dict()
        answer = self._ask({"op": "go", "needs": list(needs), "turn": ask, "inputs": compared})
        return "waiting" if answer == "waiting" else "queued" if answer == "queued" else "running"

    def close(self) -> None:
        """Close the socket: the supervisor removes an app not yet started and cancels an attached one."""
        if self._control is not None:
            if self.attached:
                with suppress(OSError):
                    self._send({"op": "close"})
            self._drop()

    def leave(self) -> None:
        """Close the socket: an attached app runs on."""
        if self._control is not None and self.attached:
            with suppress(OSError):
                self._send({"op": "leave"})
            self._attached_to = 0
            self._drop()

    def _drop(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None

    def reap(self, *, block: bool = False) -> bool:
        """Collect the exit status of an ended supervisor, a zombie until then. True when it is gone."""
        try:
            return os.waitpid(self.pid, 0 if block else os.WNOHANG)[0] == self.pid
        except ChildProcessError:
            # The host program's SIGCHLD handler has collected it, or this process is a fork of its parent.
            return pids.start_time(self.pid) is None

    def ends(self, timeout_s: float) -> bool:
        """Whether the supervisor ended within `timeout_s`. Its pid cannot be reused before `reap`."""
        start = pids.start_time(self.pid)
        return start is None or pids.wait_for_exit(self.pid, start, timeout_s)

    def kill(self) -> None:
        """Send SIGKILL, unless the supervisor has ended."""
        start = pids.start_time(self.pid)
        if start is not None:
            pids.send(self.pid, start, SIGKILL)

    def _ask(self, message: dict[str, Any]) -> str:
        """Send a message; returns the answer, "" where the supervisor ended the app as a user requested.

        Raises StartError for an error, SchedulerError where there is no answer, since the process died.
        """
        try:
            self._send(message)
            answer = self._receive()
        except (BrokenPipeError, ConnectionResetError):
            answer = None
        if answer is None or "error" in answer:
            self.close()
            self.reap(block=True)
        if answer is not None and answer.get("ok"):
            return str(answer["ok"])
        if answer is not None and "error" in answer:
            raise _refusal(answer)
        view = appview.read_state(self.app_dir)
        if view is None or view.state not in ("cancelled", "skipped"):
            said = last_line_of(os.path.join(self.app_dir, "supervisor.err"))
            raise SchedulerError(
                f"the supervisor of {os.path.basename(self.app_dir)} died{said and f': {said}'}",
                hint="apply again; if it stays so, the disk may be full or the machine out of memory",
            )
        return ""

    def _send(self, message: dict[str, Any]) -> None:
        if self._control is None:
            raise BrokenPipeError
        self._control.sendall(pack(message), NO_SIGPIPE)

    def _receive(self) -> dict[str, Any] | None:
        """The next message; None when the supervisor has closed its end."""
        if self._control is None:
            return None
        inbox = Inbox(self._control.fileno())
        while inbox.read():
            if (message := inbox.take()) is not None:
                return dict(message)
        return None


class LineClient:
    """The line holders that this client has started: a further one when the last has too many open files."""

    def __init__(self) -> None:
        self._socket: socket | None = None
        self._most = resource.getrlimit(resource.RLIMIT_NOFILE)[1] // 2
        self._count = 0

    def hold(self, app_dir: str, lock_fd: int) -> SupervisorClient:
        """Have an app held. The holder takes over the lock: the caller closes its copy of `lock_fd`.

        Raises SchedulerError when no holder can be started. One thread at a time.
        """
        ours, theirs = socketpair()
        try:
            self._pass((theirs.fileno(), lock_fd))
        finally:
            theirs.close()
        return HeldClient(app_dir, 0, ours)

    def _pass(self, fds: tuple[int, int]) -> None:
        if self._socket is not None and self._count < self._most:
            try:
                send_with(self._socket.fileno(), _APP, fds)
                self._count += 1
                return
            except OSError:  # the holder was killed
                pass
        self.close()
        self._socket = start_bare(
            "line holder",
            "launcher.schedulers.local.line_holder",
            control=CONTROL_FD,
            log=os.path.join(paths.local(), "line.err"),
            args=(paths.local_apps(),),
        )[1]
        self._count = 1
        send_with(self._socket.fileno(), _APP, fds)

    def close(self) -> None:
        """Let the holder go on alone."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class HeldClient(SupervisorClient):
    """The client of one app in a process that holds many. See `SupervisorClient`."""

    def __del__(self) -> None:
        self._drop()

    def go(self, *wants: Any) -> AttemptState:
        accepted = super().go(*wants)
        self._drop()
        return accepted

    def close(self) -> None:
        """Close the socket: the holder removes an app that it has not accepted, and closes its end."""
        if self._control is not None:
            try:
                self._control.shutdown(SHUT_WR)
            except OSError:  # the other end is closed
                pass

    def reap(self, *, block: bool = False) -> bool:
        return True

    def ends(self, timeout_s: float) -> bool:
        """Whether the holder released the app within `timeout_s`."""
        if self._control is None:
            return True
        poll = select.poll()
        poll.register(self._control.fileno(), select.POLLIN)
        while poll.poll(timeout_s * 1000):
            if self._receive() is None:
                return True
        return False

    def kill(self) -> None:
        """Send SIGKILL to the supervisor, if the app has one by now."""
        view = appview.read_state(self.app_dir)
        if view is not None and view.supervisor is not None and view.supervisor[2] == pids.boot_id():
            pids.send(*view.supervisor[:2], SIGKILL)


def _role(
    request: PopenRequest, name: str, secrets: Mapping[str, str], unbuffered: Mapping[str, str]
) -> dict[str, Any]:
    retries, policy = request.role_retries.get(name, (0, "APPLICATION"))

    def environment(param: ReplicaParam) -> dict[str, str]:
        """The environment with resolved secrets; a literal that looks like a reference stays."""
        own = {
            _exact(name): secrets[value] if isinstance(value, Secret) else _exact(value)
            for name, value in param.env.items()
        }
        return {**unbuffered, **own}

    def packed(param: ReplicaParam) -> bytes:
        """A replica's packed start request. Packing in the supervisor would enlarge its memory for good."""
        argv = [_exact(arg) for arg in param.args]
        return pack_request({"argv": argv, "env": environment(param), "cwd": param.cwd or "/"}, common)

    params, folders = request.role_params[name], request.role_log_dirs[name]
    common = environment(params[0]) if params else {}
    return {
        "name": name,
        "env": common,
        "max_retries": retries,
        "retry_policy": policy,
        "rules": request.role_rules.get(name, {}),
        "gpus": request.role_gpus.get(name, 0),
        "replicas": [(packed(param), folder) for param, folder in zip(params, folders, strict=True)],
    }


def _values_to_mask(
    request: PopenRequest, environment: dict[str, str], secrets: Mapping[str, str]
) -> list[str]:
    """The values that no message may repeat: secrets, and literals under names of secrets.

    A short literal does not count: it may be a word of any message.
    """
    envs = [environment, *(param.env for params in request.role_params.values() for param in params)]
    found = {value for env in envs for name, value in env.items() if is_sensitive(name)}
    literals = [_exact(v) for v in found if not isinstance(v, Secret) and len(v) >= SHORTEST_LITERAL]
    return sorted({*secrets.values(), *literals})


def _exact(text: str) -> str:
    """The text as a plain str: marshal takes no subclasses, such as members of a str enum."""
    return text[:]


def _refusal(answer: Mapping[str, Any]) -> StartError:
    """The error that the supervisor reported, naming the replica and its command."""
    text = str(answer["error"])
    if answer.get("role") is None:
        return StartError(text)
    import shlex

    where = str(answer["role"]) if answer.get("k") is None else f"{answer['role']}/{answer['k']}"
    argv = answer.get("argv")
    return StartError(f"cannot start {where}: {text}" + (f"\n  command: {shlex.join(argv)}" if argv else ""))
