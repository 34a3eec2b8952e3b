"""P1: what it costs to start a command, as a whole process, against a bare `python -c pass`."""

import sys
from collections.abc import Iterator

from tests.benchmarks.measure import Row, Settings, compare
from tests.benchmarks.peers import peer
from tests.benchmarks.world import job, launcher, long_job, took, world

PASS = [sys.executable, "-c", "pass"]
LISTING = [
    sys.executable,
    "-c",
    "import sqlite3; print(sqlite3.connect(':memory:').execute('select 1').fetchall())",
]
TORCHX_HELP = ["torchx", "--help"]


def rows(settings: Settings) -> Iterator[Row]:
    with world() as folder:
        (folder / "job.launcher.yaml").write_text(job("job", "echo hello"))
        took(launcher("apply", "job.launcher.yaml", "--yes", "--wait"))
        for argv, target in (
            (["--version"], "<= 1.8"),
            (["--help"], "<= 3"),
            (["list"], "<= 3"),
            (["status", "job"], "<= 3"),
            (["logs", "job"], "<= 3"),
        ):
            yield _whole_process(argv, target, settings)
        yield compare(
            "python -c 'import sqlite3; …' for comparison",
            floor=lambda: took(PASS),
            ours=lambda: took(LISTING),
            target="",
            rounds=settings.rounds,
        )
        (folder / "long.launcher.yaml").write_text(long_job("long"))
        (folder / "long.launcher.toml").write_text(LONG_TOML)
        yield _whole_process(["validate", "long.launcher.yaml", "--no-cache"], "<= 18", settings)
        yield _whole_process(["validate", "long.launcher.toml", "--no-cache"], "<= 16", settings)
        yield _saved_plan(settings)


def _whole_process(argv: list[str], target: str, settings: Settings) -> Row:
    return compare(
        f"launcher {' '.join(argv)}",
        floor=lambda: took(PASS),
        ours=lambda: took(launcher(*argv)),
        peers=peer(settings, TORCHX_HELP) if argv == ["--help"] else {},
        target=target,
        rounds=settings.more(3),
    )


def _saved_plan(settings: Settings) -> Row:
    """Each round applies another plan: one that was applied is stale. The ledger has a past by then."""
    names = [f"planned{number}" for number in range(settings.rounds + 1)]
    for name in names:
        with open(f"{name}.launcher.yaml", "w") as file:
            file.write(f"version: 1\nname: {name}\nroles: {{main: {{entrypoint: 'true'}}}}\n")
        took(launcher("plan", f"{name}.launcher.yaml", "--out", f"{name}.json"))
    left = iter(names)
    return compare(
        "launcher apply plan.json --wait of `true`",
        floor=lambda: took(PASS),
        ours=lambda: took(launcher("apply", f"{next(left)}.json", "--wait")),
        target="<= 9",
        rounds=settings.rounds,
    )


LONG_TOML = """\
version = 1
name = "long-toml"
description = "Train and evaluate on two replicas each."
scheduler = "local_cwd"
timeout = "2h"
enabled = true

[vars]
dataset = { type = "str", default = "mnist" }

[vars.epochs]
type = "int"
default = 3
min = 1
help = "passes over the data"

[vars.precision]
type = "str"
default = "fp32"
choices = ["fp32", "bf16"]

[cfg]
grace_s = 5

[roles.trainer]
entrypoint = "python"
args = [
  "-m", "train",
  "--epochs", "$<var.epochs>",
  "--dataset", "$<var.dataset>",
  "--precision", "$<var.precision>",
  "--run", "$<app_id>",
  "--rank", "$<replica_id>",
]
num_replicas = 2
max_retries = 2
retry_policy = "replica"
resource = { cpu = 2, gpu = 0, memory = "4GiB" }
port_map = { tcp_store = 29500 }

[roles.trainer.env]
RUN_ID = "$<app_id>"
OMP_NUM_THREADS = 4
DATA_DIR = "$<job.dir>/data"

[roles.evaluator]
entrypoint = "python"
args = ["-m", "evaluate", "--run", "$<app_id>"]
num_replicas = 2
resource = { cpu = 1, memory = "2GiB" }

[roles.evaluator.env]
RUN_ID = "$<app_id>"
OMP_NUM_THREADS = 2

[metadata]
team = "vision"

[lifecycle]
on_failed = "rerun"
max_attempts = 3
"""
