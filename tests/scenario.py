"""The words of scenarios: apply, plan, wait, cancel, state, logs … through the real command in a process.

The world is looked at directly (processes, files, the ledger), not through what the command prints.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import IO, TYPE_CHECKING, Any

from tests import processes
from tests.forkserver import Done, launcher, whole

if TYPE_CHECKING:
    from launcher.specs import AppState
    from launcher.specs.attempt import Attempt


class Gate:
    """Two named pipes between a test and a replica: both sides wait in the kernel, without sleeps.

    In a job: `echo $$ > ENTER` blocks until the test calls `entered()`, which returns the text;
    `read x < LEAVE` blocks until the test calls `open()`.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.enter = folder / f"{name}.enter"
        self.leave = folder / f"{name}.leave"
        os.mkfifo(self.enter)
        os.mkfifo(self.leave)

    @property
    def script(self) -> str:
        """Shell text that announces itself (its pid) and then waits for `open()`."""
        return f"echo $$ >{self.enter}; read x <{self.leave}"

    def entered(self) -> str:
        """Wait for a replica to arrive; return the text that it wrote."""
        return self.enter.read_text().strip()

    def open(self) -> None:
        """Let one replica go on. Waits for it to arrive at the pipe."""
        self.leave.write_text("go\n")


class Scenario:
    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self.home = home
        self._started: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Scenario:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._started:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe:
                    pipe.close()

    # files

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"))
        return path

    def job(
        self, script: str, *, name: str = "job", replicas: int = 1, role: str = "", top: str = ""
    ) -> Path:
        """Write a job file with one role `main` that runs a shell script.

        `role` and `top` are further lines of YAML in the role and at the top of the file.
        """
        # JSON strings are YAML strings; a line each for role and top-level extras.
        lines = [
            "version: 1",
            f"name: {name}",
            *textwrap.dedent(top).strip().splitlines(),
            "roles:",
            "  main:",
            "    entrypoint: sh",
            f"    args: [-c, {json.dumps(script)}]",
            f"    num_replicas: {replicas}",
            *textwrap.indent(textwrap.dedent(role).strip(), "    ").splitlines(),
        ]
        return self.write(f"{name}.launcher.yaml", "\n".join(lines) + "\n")

    @property
    def elsewhere(self) -> dict[str, str]:
        """Return the environment of a client of this machine with another state folder."""
        return {**os.environ, "LAUNCHER_HOME": str(self.home.with_name("elsewhere"))}

    def gate(self, name: str = "gate") -> Gate:
        return Gate(self.folder, name)

    # commands

    def launcher(self, *argv: str | Path, code: int | None = 0, timeout_s: float = 240, **popen: Any) -> Done:
        """Run `launcher ARGV` to its end, in the scenario's folder.

        Fails when it exits with anything but `code` (None: whatever), or prints a traceback.
        """
        words = [*map(str, argv)]
        got = self._done(words, timeout_s, popen)
        shown = f"launcher {shlex.join(words)} exited {got.code}\n{got.out}\n{got.err}"
        assert "Traceback (most recent call last)" not in got.err, shown
        assert code is None or got.code == code, shown
        return got

    def _done(self, argv: list[str], timeout_s: float, popen: dict[str, Any]) -> Done:
        """Forked from a loaded interpreter where that makes no difference, else from the start."""
        popen = {"cwd": self.folder, **popen}
        if popen.keys() - {"cwd", "env"}:
            return whole(argv, timeout=timeout_s, **popen)
        environ = popen.get("env") or os.environ
        return launcher(argv, cwd=str(popen["cwd"]), environ=environ, timeout_s=timeout_s)

    def start(self, *argv: str | Path, **popen: Any) -> subprocess.Popen[str]:
        """Start `launcher ARGV` and go on. Killed when the scenario ends, should it still run."""
        return self.spawn([sys.executable, "-m", "launcher", *map(str, argv)], **popen)

    def spawn(self, command: list[str], **popen: Any) -> subprocess.Popen[str]:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(command, text=True, **{"cwd": self.folder, **pipes, **popen})
        self._started.append(process)
        return process

    def interrupted(
        self, chance: Random, kill: Callable[[], None], *argv: str | Path, within: tuple[float, float]
    ) -> None:
        """Apply and wait. Call `kill` at a random moment of these seconds; the client ends or is killed."""
        client = self.start("apply", *argv, "--yes", "--wait")
        with suppress(subprocess.TimeoutExpired):
            client.wait(chance.uniform(*within))
        kill()
        if chance.random() < 0.5:
            client.kill()
        with suppress(subprocess.TimeoutExpired):
            client.communicate(timeout=chance.uniform(0.1, 2.0))
        client.kill()
        client.communicate()

    def apply(self, *argv: str | Path, code: int | None = 0) -> Done:
        return self.launcher("apply", *argv, "--yes", code=code)

    def running(self, more: str = "", **job: Any) -> tuple[Path, Gate]:
        """Apply a job that waits at a gate and then runs `more`; return its file and the gate."""
        gate = self.gate()
        file = self.job(f"{gate.script}; {more}" if more else gate.script, **job)
        self.apply(file)
        gate.entered()
        return file, gate

    def run_to_end(self, *argv: str | Path, code: int | None = 0) -> Done:
        return self.launcher("apply", *argv, "--yes", "--wait", code=code)

    def plan(self, *argv: str | Path, code: int | None = 0) -> str:
        return self.launcher("plan", *argv, code=code).out

    def plan_document(self, *argv: str | Path) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.plan(*argv, "--format", "json"))
        return document

    def actions(self, *argv: str | Path) -> dict[str, str]:
        """Return the action (keep, create …) of a plan for each job."""
        return {job["key"]["job"]: job["action"] for job in self.plan_document(*argv)["jobs"]}

    def wait(self, app: str, *, code: int | None = 0) -> Done:
        return self.launcher("wait", app, code=code)

    def cancel(self, app: str, *argv: str, code: int | None = 0) -> Done:
        return self.launcher("cancel", app, *argv, code=code)

    def logs(self, app: str, *argv: str, code: int | None = 0) -> str:
        return self.launcher("logs", app, *argv, code=code).out

    def status(self, app: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.launcher("status", app, "--json", code=None).out)
        return document

    def state(self, app: str) -> AppState:
        from launcher.specs import AppState

        return AppState[self.status(app)["state"].upper()]

    # the world

    def attempts(
        self, job: str = "job", *, project: str = "default", target: str = "default"
    ) -> list[Attempt]:
        """Return the attempts of a job in the ledger, oldest first."""
        from launcher.specs import JobKey
        from launcher.state.store import Store

        with Store.open(readonly=True) as store:
            return sorted(store.attempts(JobKey(project, target, job)), key=lambda attempt: attempt.number)

    def supervisors(self) -> dict[str, int]:
        """Return the pid of every live supervisor, by app id."""
        return processes.supervisors(str(self.home))

    def processes_of(self, app_id: str) -> list[int]:
        return processes.of_app(str(self.home), app_id)

    def apps(self) -> list[str]:
        """Return the app ids that have a folder."""
        folder = self.home / "local" / "apps"
        return (
            sorted(path.name for path in folder.iterdir() if path.name[0] != ".") if folder.is_dir() else []
        )


def until_line(stream: IO[str], text: str) -> str:
    """Read lines until one has `text`; return that line. Fails at the end of the stream."""
    seen = []
    for line in stream:
        seen.append(line)
        if text in line:
            return line
    raise AssertionError(f"no line with {text!r} before the end of:\n{''.join(seen)}")
