"""Drives a supervisor over its control socket, as a client does, but step by step."""

import fcntl
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from launcher.holding.replica import Replica
from launcher.schedulers import loop, pids
from launcher.schedulers.appfolder import AppFolder
from launcher.schedulers.local import appview, rundir, stop
from launcher.schedulers.local.appview import AppView
from launcher.schedulers.local.filewatch import FileWatch
from launcher.schedulers.local.logs import LogView
from launcher.schedulers.local.spawn import pack
from launcher.schedulers.many import the_one
from launcher.turns.line import MACHINE, Ask, Limit
from tests import kill_at
from tests.waiting import PATIENCE_S

ROOT = str(Path(__file__).resolve().parents[3])
MAIN = (
    f"import sys; sys.path.insert(0, {ROOT!r}); from launcher.schedulers.local.supervisor import main; main()"
)


def sh(script: str) -> list[str]:
    return ["sh", "-c", script]


def withdraw(app_id: str) -> bool:
    return the_one(stop.withdraw([app_id]))


ONE_CORE = Limit(MACHINE, cpu=1)


def stay_asleep(*pids_: int) -> bool:
    """Return whether processes, once they have come to rest, are not woken for a while."""

    def switches() -> list[str]:
        lines = [line for pid in pids_ for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
        return [line for line in lines if "ctxt_switches" in line]

    deadline = time.monotonic() + PATIENCE_S
    while (before := switches()) != (time.sleep(0.5) or switches()):
        assert time.monotonic() < deadline, "they never come to rest"
    time.sleep(1.5)
    return switches() == before


def states(view: AppView) -> list[str]:
    """Return the state of each replica of an app, in its order."""
    return [view.shown(each)[0] for each in view.replicas]


class Driven:
    """One app folder and the supervisor that works in it."""

    def __init__(
        self,
        app_dir: Path,
        *,
        file_size: int | None = None,
        files: int | None = None,
        dies_at: tuple[str, int] | None = None,
        first: str = "",
    ) -> None:
        """
        Args:
            dies_at: (event, n): it is killed when it has recorded its n-th event of that kind.
            first: Python that it runs first.
        """
        self.app_dir = str(app_dir)
        self.logs = app_dir / "logs"
        self.cwd = str(app_dir.parent)
        os.makedirs(self.app_dir, exist_ok=True)
        self._spawn(file_size, files, first if dies_at is None else kill_at.at_record(*dies_at))

    def _spawn(self, file_size: int | None, files: int | None, first: str) -> None:
        lock = os.open(AppFolder(self.app_dir).lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.socket, theirs = socket.socketpair()
        copies = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 20) for fd in (theirs.fileno(), lock)]
        errors = os.path.join(self.app_dir, "supervisor.err")
        limits = {resource.RLIMIT_FSIZE: file_size, resource.RLIMIT_NOFILE: files}
        before = {each: resource.getrlimit(each) for each in limits}
        for each, soft in limits.items():
            if soft is not None:
                resource.setrlimit(each, (soft, before[each][1]))
        try:
            self.pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", "-X", f"utf8={sys.flags.utf8_mode}", "-c", first + MAIN],
                {k: v for k, v in os.environ.items() if k == "LANG" or k.startswith("LC_")},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 2, errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
                    (os.POSIX_SPAWN_DUP2, copies[0], 3),
                    (os.POSIX_SPAWN_DUP2, copies[1], 4),
                ],
                setsid=True,
            )
        finally:
            for each, limit in before.items():
                resource.setrlimit(each, limit)
            for fd in (*copies, lock):
                os.close(fd)
            theirs.close()
        self._start = pids.start_time(self.pid)
        self._inbox = loop.Inbox(self.socket.fileno())

    # -- the protocol --------------------------------------------------------------------------------------

    def role(
        self,
        name: str,
        *argvs: Sequence[str],
        env: Mapping[str, str] = {},
        cwd: str | None = None,
        retries: int = 0,
        policy: str = "APPLICATION",
        log_dir: str | None = None,
        rules: Mapping[str, Any] = {},
    ) -> dict[str, Any]:
        """Return a role of the request: one replica an argv."""
        ours = {"LAUNCHER_SCRATCH": rundir.scratch(self.app_dir), "LAUNCHER_JOB_ID": "local_cwd://test/app"}
        replicas = [
            {"argv": list(argv), "env": {**ours, **env}, "cwd": cwd or self.cwd,
                "log_dir": os.path.join(log_dir or str(self.logs), name, str(k))}
            for k, argv in enumerate(argvs)
        ]  # fmt: skip
        return {
            "name": name, "max_retries": retries, "retry_policy": policy, "rules": dict(rules),
            "replicas": replicas,
        }  # fmt: skip

    def create(
        self,
        *roles: dict[str, Any],
        attached: bool = False,
        timeout_s: float | None = None,
        grace_s: float = 10.0,
        separate_streams: bool = False,
        log_max_bytes: int = 0,
        env: Mapping[str, str] | None = None,
        secrets: Sequence[str] = (),
    ) -> Any:
        return self.ask(
            {"op": "create", "app_dir": self.app_dir, "handle": "local_cwd://test/app",
                "attached": attached, "timeout_s": timeout_s, "grace_s": grace_s,
                "separate_streams": separate_streams, "log_max_bytes": log_max_bytes,
                "env": dict(os.environ if env is None else env), "secrets": list(secrets),
                "roles": [_packed(each) for each in roles]}
        )  # fmt: skip

    def go(self) -> Any:
        return self.ask({"op": "go"})

    def start(self, *roles: dict[str, Any], **options: Any) -> None:
        """Create the app and send "go"; both must succeed."""
        assert self.create(*roles, **options) == {"ok": "created"}
        assert self.go() == {"ok": "started"}

    def ask(self, message: dict[str, Any]) -> Any:
        """Send a message; return the reply, None when the supervisor hangs up instead."""
        if not loop.send(self.socket.fileno(), message):
            return None
        return self.reply()

    def reply(self) -> Any:
        while (message := self._inbox.take()) is None:
            if not self._inbox.read():
                return None
        return message

    def hang_up(self) -> None:
        self.socket.close()

    # -- waiting for its end -------------------------------------------------------------------------------

    def run(self, *roles: dict[str, Any], **options: Any) -> AppView:
        """Start the app, and wait for its end."""
        self.start(*roles, **options)
        return self.ended()

    def cancel(self, by: str = "somebody") -> None:
        Path(rundir.cancel(self.app_dir)).write_text(f"{by}\n")
        os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill the supervisor with SIGKILL."""
        os.kill(self.pid, signal.SIGKILL)
        self.exited()

    def exits_within(self, seconds: float) -> bool:
        return pids.wait_for_exit(self.pid, self._start or 0, seconds)

    def exited(self) -> int:
        """Wait for the supervisor; return its exit code."""
        assert self.exits_within(PATIENCE_S), "the supervisor does not end"
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def ended(self) -> AppView:
        """Wait for the supervisor; return the final state, which it must have recorded without an error."""
        assert self.exited() == 0, self.errors
        assert self.errors == ""
        assert self.view.state in ("succeeded", "failed", "cancelled"), self.view.state
        return self.view

    def until(self, condition: Callable[[AppView], object]) -> AppView:
        """Wait until a condition on the record is true."""
        watch = FileWatch([rundir.events(self.app_dir)])
        deadline = time.monotonic() + PATIENCE_S
        try:
            while not condition(view := self.view):
                assert time.monotonic() < deadline, self.record
                watch.wait(deadline - time.monotonic())
        finally:
            watch.close()
        return view

    def until_log(self, text: str, role: str = "main", k: int = 0) -> None:
        """Wait until a replica has printed `text`."""
        path = self.logs / role / str(k) / rundir.COMBINED
        wait_for_file(path, lambda: text in self.log(role, k))

    @property
    def view(self) -> AppView:
        view = appview.read_state(self.app_dir)
        assert view is not None, "the app folder is gone"
        return view

    @property
    def record(self) -> str:
        return Path(rundir.events(self.app_dir)).read_text()

    @property
    def errors(self) -> str:
        return (Path(self.app_dir) / "supervisor.err").read_text()

    def log(self, role: str = "main", k: int = 0, stream: str = "combined") -> str:
        with LogView(str(self.logs / role / str(k)), stream) as view:
            return b"".join(view.chunks()).decode()

    def replica(self, role: str = "main", k: int = 0) -> Replica:
        return self.view.roles[role].replicas[k]

    def left(self) -> list[str]:
        """Return the command lines of the processes that the app has left behind."""
        found = appview.leftovers(self.app_dir, appview.read_state(self.app_dir) or AppView())
        return [Path(f"/proc/{each.pid}/cmdline").read_text() for each in found]

    def destroy(self) -> None:
        """Kill and remove all that the app has left."""
        self.socket.close()
        if self._start is not None and pids.send(self.pid, self._start, signal.SIGKILL):
            pids.wait_for_exit(self.pid, self._start, PATIENCE_S)
        appview.kill_leftovers(self.app_dir, appview.read_state(self.app_dir) or AppView())


def wait_for_file(path: Path, condition: Callable[[], object]) -> None:
    """Wait until a change of `path` makes `condition` true. Its folder must exist."""
    watch = FileWatch([str(path)])
    deadline = time.monotonic() + PATIENCE_S
    try:
        while not condition():
            assert time.monotonic() < deadline, f"{path} does not become what it should be"
            watch.wait(deadline - time.monotonic())
    finally:
        watch.close()


def turn(app: Driven, table: str, number: int, **wanted: Any) -> dict[str, Any]:
    """Return the ask of an app, for one core unless others are `wanted`, as its client sends it."""
    wanted = {"cpu": 1, "limits": [ONE_CORE], **wanted}
    return Ask(os.path.basename(app.app_dir), number=number, table=table, **wanted).to_dict()


def go(
    app: Driven,
    table: str,
    number: int,
    script: str = "echo ran",
    *,
    env: Mapping[str, str] = {},
    needs: Sequence[tuple[str, str]] = (),
    attached: bool = False,
    timeout_s: float | None = None,
    **wanted: Any,
) -> Any:
    """Create an app of one replica, and send it off to take its `turn`; returns the answer."""
    role = app.role("main", sh(script), env=dict(env))
    assert app.create(role, attached=attached, timeout_s=timeout_s) == {"ok": "created"}
    return app.ask({"op": "go", "needs": list(needs), "turn": turn(app, table, number, **wanted)})


def _packed(role: dict[str, Any]) -> dict[str, Any]:
    """Return a role as a client sends it: its replicas packed, each with its folder of logs."""
    common = role["replicas"][0]["env"] if role["replicas"] else {}
    replicas = [(pack(each, common), each["log_dir"]) for each in role["replicas"]]
    return {**role, "env": common, "replicas": replicas}
