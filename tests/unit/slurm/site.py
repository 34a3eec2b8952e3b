"""An app directory on a cluster, and an `srun` that starts the replicas of a step on this machine."""

import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from launcher.holding.journal import read_events
from launcher.schedulers.pids import start_time
from launcher.schedulers.slurm.cluster import program
from tests.engines.slurm import END_S
from tests.waiting import until

SRUN = """#!{python} -IS
import os, select, subprocess, sys
count = int(next(each[9:] for each in sys.argv if each.startswith("--ntasks=")))
argv = sys.argv[sys.argv.index("python3"):]
tasks = [
    subprocess.Popen(argv, stdin=subprocess.PIPE, env=dict(os.environ, SLURM_PROCID=k, SLURM_LOCALID=k))
    for k in map(str, range(count))
]
watched = [0]
codes = []
while any(each.poll() is None for each in tasks):
    if select.select(watched, [], [], 0.01)[0]:
        data = os.read(0, 65536)
        if not data:
            watched = []
        for each in tasks:
            try:
                each.stdin.write(data)
                each.stdin.flush() if data else each.stdin.close()
            except OSError:
                pass
sys.exit(max(each.returncode if each.returncode >= 0 else 128 - each.returncode for each in tasks))
"""


def role(name: str, script: str, *, replicas: int = 1, **fields: Any) -> dict[str, Any]:
    """Return a role of app.json: a shell that runs `script`."""
    return {
        "name": name, "folder": name, "retries": fields.get("retries", 0),
        "policy": fields.get("policy", "REPLICA"), "srun": ["srun", f"--ntasks={replicas}"],
        "replicas": [
            {"argv": fields.get("argv", ["sh", "-c", script]), "env": {"K": str(k), **fields.get("env", {})}}
            for k in range(replicas)
        ],
    }  # fmt: skip


def patch(program: Path, module: str, old: str, new: str) -> None:
    """Change the text of a module in the zip that runs on the nodes."""
    with zipfile.ZipFile(program) as file:
        texts = {name: file.read(name).decode() for name in file.namelist()}
    (name,) = [each for each in texts if each.endswith(f"/{module}.py")]
    assert old in texts[name]
    texts[name] = texts[name].replace(old, new)
    with zipfile.ZipFile(program, "w") as file:
        for path, text in texts.items():
            file.writestr(path, text)


class Site:
    """One app directory below `folder`, and its conductor."""

    def __init__(self, folder: Path) -> None:
        self.dir = folder / "app"
        self.dir.mkdir()
        (self.dir / "id").write_text("n1")
        (self.dir / "job").write_text("12")
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.shared = folder
        self.program("srun", SRUN.format(python=sys.executable))
        self.zip = self.dir / "app.zip"
        self.zip.write_bytes(program())
        self.python = sys.executable
        self._processes: list[subprocess.Popen[bytes]] = []

    def program(self, name: str, text: str) -> None:
        """Put a program in front of those of this machine."""
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def patch(self, module: str, old: str, new: str) -> None:
        """Change the text of a module of the program on the nodes."""
        patch(self.zip, module, old, new)

    def scontrol(self, text: str) -> None:
        """Make `scontrol` print this text."""
        self.program("scontrol", f"#!/bin/sh\necho '{text}'\n")

    def app(self, *roles: Mapping[str, Any], order: Mapping[str, Any] | None = None, **fields: Any) -> None:
        """Write app.json."""
        made = {
            "app_id": "app", "handle": "slurm://s/app", "session": "s", "timeout_s": None, "grace_s": 10.0,
            "cwd": None, "requeue": False, "order": order or {}, "roles": list(roles),
            "hosts": {each["name"]: each["folder"] for each in roles}, **fields,
        }  # fmt: skip
        (self.dir / "app.json").write_text(json.dumps(made))

    def events(self, kind: str = "") -> list[dict[str, Any]]:
        """Return the events of the record; those of one kind."""
        path = self.dir / "events"
        found = read_events(path.read_bytes()) if path.exists() else []
        return [each for each in found if not kind or each["e"] == kind]

    def start(self, job: str = "12", **env: str) -> subprocess.Popen[bytes]:
        """Start the conductor as the batch script does."""
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "LAUNCHER_"))
        }
        path = f"{self.bin}:{inherited['PATH']}"
        with open(self.dir / "slurm.out", "ab") as out:
            process = subprocess.Popen(
                [self.python, "-I", "-S", str(self.zip), "conduct", str(self.dir)],
                env={**inherited, "PATH": path, "SLURM_JOB_ID": job, **env}, stdin=subprocess.DEVNULL,
                stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip
        self._processes.append(process)
        return process

    def started(
        self, role: str = "main", k: int = 0, line: bytes = b"up\n", **env: str
    ) -> subprocess.Popen[bytes]:
        """Start the conductor, and wait until a replica has printed a line."""
        process = self.start(**env)
        path = self.dir / f"logs/{role}/{k}.log"
        until(lambda: path.exists() and line in path.read_bytes())
        return process

    def link(self, name: str, **fields: Any) -> None:
        """Make a JSON file of the app, as a whole."""
        (self.dir / "new").write_text(json.dumps(fields))
        (self.dir / "new").rename(self.dir / name)

    def cancel(self, process: subprocess.Popen[bytes], grace_s: float | None = None) -> None:
        """Ask for the end of the app, and signal its conductor."""
        self.link("cancel", grace_s=grace_s, interrupt=False)
        process.send_signal(signal.SIGUSR2)

    def run(self, **env: str) -> dict[str, Any]:
        """Run the app to its end; return its outcome."""
        code = self.start(**env).wait(END_S)
        return {**self.outcome(), "code": code}

    def outcome(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.dir / "outcome").read_text())
        return found

    def log(self, role: str, k: int = 0) -> bytes:
        return (self.dir / "logs" / role / f"{k}.log").read_bytes()

    def index(self, role: str, k: int = 0) -> list[tuple[int, int, str]]:
        """Return (offset, epoch ns, stream) of each entry."""
        lines = (self.dir / "logs" / role / f"{k}.index").read_text().splitlines()
        return [(int(at), int(ns), kind) for at, ns, kind in map(str.split, lines)]

    def parts(self, role: str, k: int = 0) -> list[tuple[str, bytes]]:
        """Return the output by stream, neighbours of one stream together."""
        entries, data = self.index(role, k), self.log(role, k)
        ends = [*(at for at, _, _ in entries[1:]), len(data)]
        made: list[tuple[str, bytes]] = []
        for kind, group in groupby(zip(entries, ends, strict=True), key=lambda each: each[0][2]):
            spans = [(entry[0], end) for entry, end in group]
            made += (
                [(kind, data[spans[0][0] : spans[-1][1]])]
                if kind != "restart"
                else [(kind, b"")] * len(spans)
            )
        return made

    def output(self) -> str:
        return (self.dir / "slurm.out").read_text()

    def processes(self) -> list[int]:
        """Return every live process of the app: conductor, srun, wrappers, replicas, what those left."""
        mark = str(self.dir).encode()
        return [
            int(each)
            for each in os.listdir("/proc")
            if each.isdigit()
            and int(each) != os.getpid()
            and (mark in _read(f"/proc/{each}/cmdline") or mark in _read(f"/proc/{each}/environ"))
        ]

    def pids_of_srun(self) -> list[int]:
        srun = str(self.bin / "srun").encode()
        return [pid for pid in self.processes() if srun in _read(f"/proc/{pid}/cmdline").split(b"\0")]

    def pids(self, program: str) -> list[int]:
        """Return the live processes of one of the programs, in the order of their start."""
        mark = f"\0{self.zip}\0{program}\0".encode()
        found = [pid for pid in self.processes() if mark in _read(f"/proc/{pid}/cmdline")]
        return sorted(set(found) - set(self.pids_of_srun()), key=lambda pid: (start_time(pid) or 0, pid))

    def close(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def states(outcome: Mapping[str, Any]) -> list[str]:
    """["r/0 succeeded 0", …] with the message of a replica."""
    replicas: Iterable[Mapping[str, Any]] = outcome["replicas"]
    return [
        f"{each['role']}/{each['k']} {each['state']} {each['code']} {each['message']}".rstrip()
        for each in replicas
    ]
