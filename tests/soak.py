"""Many commands from many processes on one LAUNCHER_HOME, and the invariants that hold afterwards.

Each worker forks a process per command from an interpreter that has launcher loaded: so the commands overlap
more than whole interpreters on few cores would.
"""

import importlib
import os
import pkgutil
import random
import re
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import launcher.apply
import launcher.cli
import launcher.jobfile
import launcher.plan
import launcher.schedulers
from launcher.cli.main import main
from tests import processes

WORKERS = 8
REPLICA = "exec 9>>$NAME.lock; flock -n 9 || echo $LAUNCHER_JOB_ID >>twice; echo $NAME; sleep 0.0$N"
"""Notes in `twice` when another attempt of its job is alive."""

JOBS = {
    "steady": "",
    "again": "lifecycle: {rerun_on: [every_apply]}",
    "changing": "lifecycle: {on_change: replace}",
    "retried": "lifecycle: {on_cancelled: rerun, on_failed: rerun, on_lost: rerun}",
}
_TEXT = """\
version: 1
name: {name}
vars: {{n: {{type: int, default: 3}}}}
{lifecycle}
roles:
  main:
    entrypoint: sh
    args: [-c, '{script}']
    env: {{NAME: {name}, N: "$<var.n>"}}
    num_replicas: 1
"""
_WRONG = re.compile(r"Traceback|damaged|malformed|disk I/O|stayed locked|BUG|AssertionError")


class Problem(NamedTuple):
    """A broken invariant: the command (or the check of the state) and the observed fault."""

    where: str
    what: str


class Command(NamedTuple):
    argv: Sequence[str]
    codes: frozenset[int]
    """The exit codes that the command may have, whatever the others do at the same time."""


def soak(folder: Path, home: Path, *, operations: int, seed: int, workers: int = WORKERS) -> list[Problem]:
    """Run `operations` mixed commands in `folder`, from `workers` processes at once.

    LAUNCHER_HOME must be `home`. Returns what went wrong, empty when nothing did.
    """
    write_jobs(folder)
    load()
    problems: list[Problem] = []
    for name in JOBS:  # every job has an attempt that `status` and `cancel` can find
        problems += _judged(Command(["apply", f"{name}.launcher.yaml", "--yes"], frozenset({0})), folder)
    shares = [operations // workers + (number < operations % workers) for number in range(workers)]
    pids = [_fork(_worker(folder, seed * 1000 + number, share)) for number, share in enumerate(shares)]
    for pid in pids:
        _, status = os.waitpid(pid, 0)
        if os.waitstatus_to_exitcode(status) != 0:
            problems.append(Problem(f"worker {pid}", f"ended with {os.waitstatus_to_exitcode(status)}"))
    problems += [Problem(*line.split("\t", 1)) for line in _lines(folder / "problems")]
    return problems + judged_world(folder, home)


def write_jobs(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name, lifecycle in JOBS.items():
        text = _TEXT.format(name=name, lifecycle=lifecycle, script=REPLICA)
        (folder / f"{name}.launcher.yaml").write_text(text)


def command(chance: random.Random) -> Command:
    """One command, drawn at random."""
    job = chance.choice([*JOBS])
    file = f"{job}.launcher.yaml"
    done, waited = frozenset({0}), frozenset({0, 5})
    applied = frozenset(
        {0, 3}
    )  # 3: another document of the job runs, which only some jobs allow to be stopped
    drawn: list[tuple[int, Command]] = [
        (20, Command(["run", "utils.echo", "--msg", "hi"], done)),
        (20, Command(["apply", file, "--yes", "--var", f"n={chance.randrange(1, 5)}"], applied)),
        (10, Command(["apply", file, "--yes", "--wait"], applied | waited)),
        (10, Command(["apply", ".", "--yes"], applied)),
        (10, Command(["list", *chance.choice([(), ("--json",)])], done)),
        (10, Command(["status", job], done)),
        (5, Command(["wait", job], waited)),
        (8, Command(["cancel", job], done)),
        (4, Command(["gc", "--older-than", "0"], done)),
        (3, Command(["plan", file], done)),
    ]
    return chance.choices([each for _, each in drawn], [weight for weight, _ in drawn])[0]


def judged_world(folder: Path, home: Path) -> list[Problem]:
    """Return the faults of the state folder and of the processes, once all commands have ended."""
    deadline = time.monotonic() + 120
    while (left := processes.of_home(str(home))) and time.monotonic() < deadline:
        processes.gone(left, timeout_s=1)
    problems = [Problem("processes", processes.describe(pid)) for pid in left]
    problems += _judged(Command(["list"], frozenset({0})), folder)  # which records the last ends
    problems += [Problem("two live attempts", line) for line in _lines(folder / "twice")]
    found = _query(home / "ledger.db", "PRAGMA integrity_check")
    if found != [("ok",)]:
        problems.append(Problem("ledger.db", str(found)))
    rows = {app_id for (app_id,) in _query(home / "ledger.db", "SELECT app_id FROM apps")}
    folders = {each.name for each in (home / "local" / "apps").iterdir()}
    problems += [Problem("folder and row", app_id) for app_id in sorted(rows ^ folders)]
    odd = "SELECT app_id, state FROM attempts WHERE state NOT IN ('succeeded', 'failed', 'cancelled')"
    problems += [Problem("ledger", " ".join(row)) for row in _query(home / "ledger.db", odd)]
    return problems


def load() -> None:
    """Import what the commands import, once for all of them."""
    for package in (launcher.apply, launcher.cli, launcher.jobfile, launcher.plan, launcher.schedulers):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def _worker(folder: Path, seed: int, share: int) -> Callable[[], int]:
    def work() -> int:
        chance = random.Random(seed)
        for _ in range(share):
            for problem in _judged(command(chance), folder):
                with open(folder / "problems", "a", encoding="utf-8") as file:
                    file.write(f"{problem.where}\t{problem.what!r}\n")
        return 0

    return work


def _judged(command: Command, folder: Path) -> list[Problem]:
    """Run a command in its own process; return the faults of its exit code and its messages."""
    output = folder / f"output.{os.getpid()}"

    def run() -> int:
        fd = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(fd, 1)
        os.dup2(fd, 2)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        os.chdir(folder)
        code = main(command.argv)
        sys.stdout.flush()
        sys.stderr.flush()
        return code

    _, status = os.waitpid(_fork(run), 0)
    code = os.waitstatus_to_exitcode(status)
    text = output.read_text(errors="replace")
    if code in command.codes and not _WRONG.search(text):
        return []
    return [Problem(f"launcher {' '.join(command.argv)}", f"exit {code}: {text[-2000:]}")]


def _fork(work: Callable[[], int]) -> int:
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            code = work()
        except BaseException:
            import traceback

            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)
    return pid


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _query(path: Path, sql: str) -> list[tuple[str, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()
