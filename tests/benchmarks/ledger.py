"""P7: one durable record, and `launcher list` with 10,000 and 100,000 recorded apps of either engine."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.measure import Row, Settings, compare
from tests.benchmarks.world import launcher, took, world

RECORDS = 100  # in one measurement, so that a single slow fdatasync does not decide it
LOCAL, DOCKER = "local_cwd", "local_docker"
PASS = [sys.executable, "-c", "pass"]


def rows(settings: Settings) -> Iterator[Row]:
    with world() as folder:
        yield compare(
            "one durable ledger record",
            floor=lambda: _append(folder / "floor"),
            ours=_record,
            peers={"sqlite, WAL, synchronous=FULL": lambda: _sqlite(folder / "peer.db")},
            target="<= 3",
            rounds=settings.rounds,
        )
    for apps, scheduler in ((10_000, LOCAL), (100_000, LOCAL), (10_000, DOCKER), (100_000, DOCKER)):
        count = settings.size(apps)
        with world():
            fill(count, scheduler)
            yield compare(
                f"launcher list, {count} recorded apps of {scheduler}",
                floor=lambda: took(PASS),
                ours=lambda: took(launcher("list")),
                target="<= 3, flat",
                rounds=settings.rounds,
            )
            if scheduler == LOCAL:
                yield compare(
                    f"launcher report, {count} recorded apps, of which 5 MB show some",
                    floor=lambda: took(PASS),
                    ours=lambda: took(launcher("report", "--since", "@1", "--html", "report.html")),
                    target="<= 150, flat",
                    rounds=settings.fewer(3),
                )
            yield compare(
                f"launcher grep --since 1h, the same {count} recorded apps",
                floor=lambda: took(PASS),
                ours=lambda: took(launcher("grep", "x", "--since", "1h"), codes=(1,)),
                target="<= 25",
                rounds=settings.fewer(5),
            )


def _append(path: Path) -> float:
    """Measure the cost of durability: append a line as long as a record, then fdatasync."""
    line = b"x" * 400 + b"\n"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    started = time.perf_counter()
    for _ in range(RECORDS):
        os.write(fd, line)
        os.fdatasync(fd)
    elapsed = time.perf_counter() - started
    os.close(fd)
    return elapsed / RECORDS


def _sqlite(path: Path) -> float:
    import sqlite3

    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, text TEXT)")
    started = time.perf_counter()
    for _ in range(RECORDS):
        connection.execute("INSERT INTO t (text) VALUES (?)", ("x" * 400,))
    elapsed = time.perf_counter() - started
    connection.close()
    return elapsed / RECORDS


_recorded = 0


def _record() -> float:
    global _recorded
    from launcher.state.store import Store

    attempts = [_attempt(_recorded + number) for number in range(RECORDS)]
    _recorded += RECORDS
    with Store.open() as store:
        started = time.perf_counter()
        for attempt in attempts:
            store.record(attempt)
        return (time.perf_counter() - started) / RECORDS


def _attempt(number: int, scheduler: str = LOCAL):
    from launcher.specs import JobKey
    from launcher.specs.attempt import Attempt
    from launcher.specs.launch import attempt_id

    key = JobKey("default", "default", f"past-{number}")
    return Attempt(
        key=key,
        number=1,
        app_id=attempt_id(key, 1),
        scheduler=scheduler,
        digest=f"lr1:sha256:{number:064x}",
        document={
            "scheduler": scheduler,
            "roles": [{"name": "main", "entrypoint": "sh", "args": ["-c", "true"]}],
        },
        origin="/somewhere/else",
        path=f"past-{number}.launcher.yaml",
        actor="user@host",
        created_at=1.7e9 + number,
        started_at=1.7e9 + number,
        ended_at=1.7e9 + number + 1,
        state="succeeded",
    )


def _runs(number: int, scheduler: str):
    """Return the row of an app that no job file made."""
    from launcher.state.records import AppRecord

    made = 1.7e9 + number
    return AppRecord(
        scheduler,
        "launcher",
        f"run-{number}",
        name="run",
        state="succeeded",
        created_at=made,
        started_at=made,
        ended_at=made + 1,
    )


def fill(count: int, scheduler: str = LOCAL) -> None:
    """Record `count` finished attempts with their apps, and `count` apps that no job file made."""
    from launcher.state.records import of_attempt
    from launcher.state.rows import from_attempt
    from launcher.state.store import _RECORD, Store

    attempts = [_attempt(number, scheduler) for number in range(count)]
    with Store.open() as store:
        store._connection.execute("BEGIN")  # one commit: a durable one each would take minutes
        store._connection.executemany(_RECORD, map(from_attempt, attempts))
        store.add_all((of_attempt(attempt), False) for attempt in attempts)
        store.add_all((_runs(number, scheduler), False) for number in range(count))
        store._connection.execute("COMMIT")
