"""P11: six state folders race one job on an engine, plain and slow. Ends at the first defect."""

import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from tests.benchmarks.measure import Row, Settings, compare
from tests.benchmarks.world import world
from tests.engines import tidy
from tests.engines.docker import Daemon
from tests.engines.proxy import Delay, at_once
from tests.races import PLAIN, SLOW, Race


def rows(settings: Settings) -> Iterator[Row]:
    tidy.join()
    with world() as folder:
        for name, delays in (("plain", PLAIN), ("slow", SLOW)):
            homes = max(2, settings.size(len(delays)))
            yield compare(
                f"{homes} state folders race one job of 4 replicas, {name} engine",
                floor=partial(_race, folder, (at_once,)),
                ours=partial(_race, folder, delays[:homes]),
                target="1 start",
                rounds=settings.rounds,
                note="floor: one client alone",
            )


def _race(folder: Path, delays: Sequence[Delay]) -> float:
    """Return the seconds until the last client has exited. Ends the run unless the job started once."""
    token = tidy.new_token()
    started = time.perf_counter()
    wrong = Race(folder / token, token, delays).run()
    took = time.perf_counter() - started
    Daemon().remove(tidy.of_token(token, Daemon().everything()))
    if wrong:
        raise SystemExit("\n".join(wrong))
    return took
