"""Requests to the agent of a login node: in this process, or in one that dies at a chosen act (`acts.py`)."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from launcher.schedulers.slurm.site.agent import ends, observe, read as read_, site, slurm
from launcher.schedulers.slurm.site.agent.site import answer
from tests.engines.slurm import END_S
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = """#!/bin/bash
#SBATCH --ntasks=1 --time=5
cd "{folder}" || exit 9
[ "$(cat job)" = "$SLURM_JOB_ID" ] || exit 0
claim=.claim.$SLURM_JOB_ID
printf '{{"job":"%s","host":"h","at":1}}' "$SLURM_JOB_ID" >$claim
ln $claim started 2>/dev/null || grep -q "\\"$SLURM_JOB_ID\\"" started || {{ rm $claim; exit 1; }}
rm $claim
[ . -ef "{folder}" ] || exit 0
echo "{app_id} $SLURM_JOB_ID" >>"{runs}"
{work}
printf '{{"state":"succeeded","message":"","replicas":[]}}' >.outcome.tmp
ln .outcome.tmp outcome; rm -f .outcome.tmp
"""
"""Does what the conductor does with `started` and `outcome`, and adds a line to a file when it runs."""

ARRAY_SCRIPT = """#!/bin/bash
#SBATCH --ntasks=1 --time=5
#SBATCH --array=0-{last}
read -r app generation < <(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" "{job_dir}/arrays/{name}/tasks")
cd "{job_dir}/apps/$app" || exit 9
[ "$(cat id)" = "$generation" ] || exit 0
job=${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID
printf '{{"job":"%s","host":"h","at":1}}' "$job" >.claim
ln .claim started 2>/dev/null || exit 0
[ . -ef "{job_dir}/apps/$app" ] || exit 0
echo "$app $job" >>"{runs}"
printf '{{"state":"succeeded","message":"","replicas":[]}}' >.outcome.tmp
ln .outcome.tmp outcome; rm -f .outcome.tmp .claim
"""


class Login:
    """The agent's operations for one job directory, by clients with different nonces."""

    def __init__(self, folder: Path) -> None:
        self.job_dir = folder / "slurm"
        programs = self.job_dir / "programs"
        programs.mkdir(parents=True, exist_ok=True)
        (programs / "p.zip").touch()
        self.runs = folder / "runs"
        folder.mkdir(exist_ok=True)
        self.runs.touch()

    def ask(self, *ops: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the answers to the operations of a request; a failure has the key `error`."""
        found = answer({"job_dir": str(self.job_dir), "ops": list(ops)})["ok"]
        return list(json.loads(json.dumps(found)))

    def do(self, op: str, **fields: Any) -> dict[str, Any]:
        """Return the answer to one operation."""
        (found,) = self.ask({"op": op, **fields})
        return found

    def kill(self, act: int, *ops: dict[str, Any]) -> int:
        """Have a process answer a request and die before an act; 0 when it died, else how many there were."""
        request = json.dumps({"job_dir": str(self.job_dir), "ops": ops})
        ran = subprocess.run(
            [sys.executable, "-m", "tests.unit.slurm.acts", str(act)],
            cwd=ROOT, input=request, capture_output=True, text=True, timeout=END_S, check=False,
        )  # fmt: skip
        assert ran.returncode in (0, -signal.SIGKILL), ran.stderr
        return 0 if ran.returncode else int(ran.stdout)

    # the operations of a client that submits

    def reserve(self, app_id: str, nonce: str, *dead: str, digest: str = "one") -> dict[str, Any]:
        return self.do(**self.reservation(app_id, nonce, *dead, digest=digest))

    def reservation(self, app_id: str, nonce: str, *dead: str, digest: str = "one") -> dict[str, Any]:
        return {
            "op": "reserve", "app_id": app_id, "record": record(app_id, digest),
            "owner": {"host": "h", "boot": "b", "pid": 1, "start": 1, "user": "u", "home": "/",
                "nonce": nonce},
            "dead": list(dead),
        }  # fmt: skip

    def creation(self, app_id: str, nonce: str, work: str = "", **fields: Any) -> dict[str, Any]:
        script = SCRIPT.format(folder=self.folder(app_id), app_id=app_id, runs=self.runs, work=work)
        made = {"op": "create", "app_id": app_id, "nonce": nonce, "needs": []}
        files = {"script": script, "app": "{}", "program": "p.zip"}
        return {**made, **files, "secret": {"main": {"KEY": "hidden"}}, **fields}

    def submission(self, app_id: str, nonce: str, *dead: str, digest: str = "one") -> list[dict[str, Any]]:
        """Return reserve, create and start of an app as one request."""
        return [
            self.reservation(app_id, nonce, *dead, digest=digest),
            self.creation(app_id, nonce),
            *self.each("start", nonce, app_id),
        ]

    def array(self, name: str, nonce: str, *app_ids: str, **needs: str) -> dict[str, Any]:
        """Return the operation that creates an array of these apps. needs: job → the app it waits for."""
        script = ARRAY_SCRIPT.format(job_dir=self.job_dir, name=name, runs=self.runs, last=len(app_ids) - 1)
        apps = [
            {"app_id": each, "nonce": nonce, "app": "{}", "secret": {}, "needs": need_of(each, needs)}
            for each in app_ids
        ]
        op = {"op": "create_array", "array": name, "script": script}
        return {**op, "program": "p.zip", "apps": apps}

    def each(self, op: str, nonce: str, *app_ids: str) -> list[dict[str, Any]]:
        """Return an operation such as `start`, for each of these apps."""
        return [{"op": op, "app_id": each, "nonce": nonce} for each in app_ids]

    def start(self, nonce: str, *app_ids: str) -> list[dict[str, Any]]:
        """Start these apps by one request; return the answer for each."""
        return self.ask(*self.each("start", nonce, *app_ids))

    def abort(self, nonce: str, *app_ids: str) -> list[str]:
        """Abort these apps by one request; return the removed ones."""
        answers = self.ask(*self.each("abort", nonce, *app_ids))
        return [each for each, found in zip(app_ids, answers, strict=True) if found["removed"]]

    def submit(self, app_id: str, nonce: str, *dead: str, digest: str = "one", **fields: Any) -> str:
        """Reserve, create and start an app; return its state."""
        for op in (
            self.reservation(app_id, nonce, *dead, digest=digest),
            self.creation(app_id, nonce, **fields),
            *self.each("start", nonce, app_id),
        ):
            found = self.do(**op)
            assert "error" not in found, found
            if found.get("state") == "skipped":
                return "skipped"
        return str(found["state"])

    # the world

    def folder(self, app_id: str) -> Path:
        return self.job_dir / "apps" / app_id

    def may_be_requeued(self, app_id: str) -> None:
        """Record that the app has the run option for it."""
        file = self.folder(app_id) / "attempt.json"
        record = json.loads(file.read_text())
        file.write_text(json.dumps({**record, "document": {"cfg": {"on_preempted": "requeue"}}}))

    def names(self, app_id: str) -> set[str]:
        return set(os.listdir(self.folder(app_id)))

    def outcome(self, app_id: str) -> dict[str, Any]:
        return dict(json.loads((self.folder(app_id) / "outcome").read_text()))

    def facts(self, *app_ids: str, **fields: Any) -> dict[str, Any]:
        found = self.do("observe", app_ids=list(app_ids) or None, **fields)
        assert "error" not in found, found
        return dict(found["apps"])

    def started(self) -> list[str]:
        """Return the apps whose script has run, once for each run."""
        return sorted(line.split()[0] for line in self.runs.read_text().splitlines())

    def wait_for(self, *app_ids: str) -> None:
        """Wait until each of them has an outcome."""
        until(lambda: all((self.folder(each) / "outcome").exists() for each in app_ids))


def need_of(app_id: str, needs: dict[str, str]) -> list[dict[str, str]]:
    job = app_id.rpartition("-")[0]
    return [{"app_id": needs[job], "job": needs[job].rpartition("-")[0]}] if job in needs else []


def record(app_id: str, digest: str = "one") -> dict[str, Any]:
    job, number = app_id.rsplit("-", 1)
    return {"key": ["p", "default", job], "number": int(number), "app_id": app_id, "digest": digest}


def replace_sleep(monkeypatch: pytest.MonkeyPatch, sleep: Callable[[float], object]) -> None:
    """Replace `sleep` in the agent alone: subprocess sleeps, too."""
    clock = SimpleNamespace(**{**vars(time), "sleep": sleep})
    for module in (ends, observe, read_, site, slurm):
        monkeypatch.setattr(module, "time", clock)


def on_small_disk(folder: Path, size: str, code: str) -> str:
    """Return the output of Python `code`, whose first argument is a folder on a file system of this size.

    Its function `fill(path)` makes a file that takes the room that is left.
    """
    if not shutil.which("unshare") or os.geteuid() != 0:
        pytest.skip("needs root and unshare(1), to mount something")
    folder.mkdir(exist_ok=True)
    mount = f'mount -t tmpfs -o size={size} none "$2" || exit 99; exec "$0" -c "$1" "$2"'
    argv = ["unshare", "-m", "sh", "-c", mount, sys.executable, FILL + textwrap.dedent(code), str(folder)]
    ran = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    if ran.returncode == 99:
        pytest.skip(f"mounting is not allowed here: {ran.stderr.strip()}")
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


FILL = """
import json, sys
from pathlib import Path
from tests.unit.slurm.agents import Login
from tests.unit.slurm.site import Site, role
folder = Path(sys.argv[1])
def fill(path):
    with open(path, "ab", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                pass
"""


def commands(folder: Path, **texts: str) -> Path:
    """Shell scripts under the names of commands; the folder is to be put on PATH."""
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    return folder
