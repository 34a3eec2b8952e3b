"""P1: what it costs to start a command, as a whole process, against a bare `python -c pass`."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ruamel.yaml import YAML

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
        (folder / "long.launcher.toml").write_text(
            "\n".join(_toml(YAML(typ="safe").load(long_job("long-toml"))))
        )
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


def _toml(table: Mapping[str, Any], path: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines of a table in TOML, whose plain values are those of JSON."""
    inner = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    if path and table.keys() - inner:
        yield f"[{'.'.join(path)}]"
    yield from (f"{key} = {json.dumps(value)}" for key, value in table.items() if key not in inner)
    for key, value in inner.items():
        yield from _toml(value, (*path, key))
