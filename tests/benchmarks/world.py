"""A private LAUNCHER_HOME for a benchmark, whole processes and their time, job files to work on."""

import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests import processes

ROOT = Path(__file__).resolve().parents[2]


@contextlib.contextmanager
def world() -> Iterator[Path]:
    """An empty folder that is also the current one; LAUNCHER_HOME and HOME below it. Removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="launcher-bench-"))
    before, there = dict(os.environ), os.getcwd()
    for name in [name for name in os.environ if name.startswith("LAUNCHER_")]:
        del os.environ[name]
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # users run compiled modules, from the second time on
    os.environ |= {"LAUNCHER_HOME": str(folder / "l"), "HOME": str(folder), "PYTHONPATH": str(ROOT)}
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    os.chdir(folder)
    try:
        yield folder
    finally:
        processes.kill(processes.of_home(str(folder / "l")))  # a benchmark that failed half-way
        os.chdir(there)
        os.environ.clear()
        os.environ |= before
        shutil.rmtree(folder, ignore_errors=True)


def launcher(*argv: str) -> list[str]:
    """Return the command line of `launcher ARGV`: the installed console script, else `python -m launcher`."""
    script = Path(sys.executable).with_name("launcher")
    return [str(script), *argv] if script.exists() else [sys.executable, "-m", "launcher", *argv]


def took(argv: Sequence[str], *, stdout: str = os.devnull, codes: Sequence[int] = (0,)) -> float:
    """Seconds from spawning `argv` until it is reaped; stdout goes to a file. Any other exit code ends us."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    actions = [
        (os.POSIX_SPAWN_OPEN, 1, stdout, flags, 0o600),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    started = time.perf_counter()
    pid = os.posix_spawnp(argv[0], list(argv), os.environ, file_actions=actions)
    _, status = os.waitpid(pid, 0)
    elapsed = time.perf_counter() - started
    code = os.waitstatus_to_exitcode(status)
    if code not in codes:
        raise SystemExit(f"{' '.join(argv)} exited {code}")
    return elapsed


def job(name: str, script: str, *, replicas: int = 1) -> str:
    """Write a small job file in YAML; return its text."""
    import json

    return (
        f"version: 1\nname: {name}\nroles:\n  main:\n    entrypoint: sh\n"
        f"    args: [-c, {json.dumps(script)}]\n    num_replicas: {replicas}\n"
    )


def matrix(name: str, count: int, role: str) -> str:
    """Write a job file with `count` jobs of one role, here; returns its name."""
    file = Path(f"{name}.launcher.yaml")
    axis = f"{{n: {{range: [0, {count}]}}}}"
    file.write_text(f"version: 1\nname: {name}\nmatrix: {axis}\nroles: {{main: {{{role}}}}}\n")
    return str(file)


def switches(pids: Iterable[int]) -> int:
    """Return how often the processes have given up a processor so far."""
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)


def long_job(name: str) -> str:
    """Return a job file of 60 lines, the way they look in earnest."""
    return LONG.replace("@", name)


LONG = """\
# yaml-language-server: $schema=../schemas/job-v1.schema.json
version: 1
name: @
description: Train and evaluate on two replicas each.

vars:
  epochs: {type: int, default: 3, min: 1, help: passes over the data}
  dataset: {type: str, default: mnist}
  precision:
    type: str
    default: fp32
    choices: [fp32, bf16]

scheduler: local_cwd
cfg:
  grace_s: 5

roles:
  trainer:
    entrypoint: python
    args:
      - -m
      - train
      - --epochs
      - $<var.epochs>
      - --dataset
      - $<var.dataset>
      - --precision
      - $<var.precision>
      - --run
      - $<app_id>
      - --rank
      - $<replica_id>
    env:
      RUN_ID: $<app_id>
      OMP_NUM_THREADS: 4
      DATA_DIR: $<job.dir>/data
    num_replicas: 2
    max_retries: 2
    retry_policy: replica
    resource: {cpu: 2, gpu: 0, memory: 4GiB}
    port_map: {tcp_store: 29500}
    metadata: {tier: batch}
  evaluator:
    entrypoint: python
    args: [-m, evaluate, --run, $<app_id>]
    env:
      RUN_ID: $<app_id>
      OMP_NUM_THREADS: 2
    num_replicas: 2
    resource:
      cpu: 1
      memory: 2GiB

metadata:
  team: vision
timeout: 2h
lifecycle:
  on_failed: rerun
  max_attempts: 3
enabled: true
"""
