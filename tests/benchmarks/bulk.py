"""P13: commands on a thousand queued apps against the same command on one; looks at ten thousand jobs."""

import os
from collections.abc import Iterator

from tests.benchmarks.measure import Row, Settings, compare, once
from tests.benchmarks.world import launcher, matrix, took, world

APPS = 1000
JOBS = 10_000
TARGET = "<= 2 s"
TARGET_OF_MANY = "<= 1 s"


def rows(settings: Settings) -> Iterator[Row]:
    """Measure whole processes. The apps are in line behind an app that holds all cores."""
    yield from _queued(settings)
    count = settings.size(JOBS)
    with world():
        one, many = _sleepers("one", 1), _sleepers("many", count)
        yield _against_one(settings, f"plan of {count:,} jobs that never ran", ("plan", one), ("plan", many))
        _apply(_sleepers("holder", 1, cpu=os.cpu_count() or 1))
        _apply(one)
        what = f"{count:,} jobs in line"
        floor = {name: took(launcher(name)) for name in ("list", "queue")}
        _apply(many)
        yield _against_one(settings, f"plan of {what}", ("plan", one), ("plan", many))
        yield _against_one(settings, f"status of {what}", ("status", "one-0"), ("status", "many"))
        for name in floor:
            yield once(
                f"{name} of {what}", ours=took(launcher(name)), floor=floor[name], target=TARGET_OF_MANY
            )
        took(launcher("cancel", "many", "one-0", "holder-0", "--yes"))


def _against_one(settings: Settings, what: str, one: tuple[str, ...], many: tuple[str, ...]) -> Row:
    return compare(
        f"{what}; floor: of one",
        floor=lambda: took(launcher(*one)),
        ours=lambda: took(launcher(*many)),
        target=TARGET_OF_MANY,
        rounds=settings.fewer(3),
    )


def _queued(settings: Settings) -> Iterator[Row]:
    count = settings.size(APPS)
    what = f"of {count:,} queued apps; floor: of one"
    with world():
        _apply(_sleepers("holder", 1, cpu=os.cpu_count() or 1))
        _apply(_sleepers("one", 1))
        floor = {name: took(launcher(name)) for name in ("gc", "queue")}
        _apply(_sleepers("many", count))
        for name, given in {"status": (), "wait": ("--timeout", "0")}.items():
            codes = (5,) if name == "wait" else (0,)
            yield compare(
                f"{name} {what}",
                floor=lambda name=name, given=given, codes=codes: took(
                    launcher(name, "one-0", *given), codes=codes
                ),
                ours=lambda name=name, given=given, codes=codes: took(
                    launcher(name, "many", *given), codes=codes
                ),
                target=TARGET,
                rounds=settings.fewer(3),
            )
        for name, alone in floor.items():
            yield once(f"{name} {what}", ours=took(launcher(name)), floor=alone, target=TARGET)
        alone = took(launcher("cancel", "one-0"))
        ours = took(launcher("cancel", "many", "--yes"))
        yield once(f"cancel {what}", ours=ours, floor=alone, target=TARGET)
        took(launcher("cancel", "holder-0"))


def _sleepers(name: str, count: int, *, cpu: int = 1) -> str:
    """A job file of `count` jobs that ask for cores and do not end."""
    return matrix(name, count, f"entrypoint: sleep, args: [1000], resource: {{cpu: {cpu}}}")


def _apply(file: str) -> None:
    took(launcher("apply", file, "--yes"))
