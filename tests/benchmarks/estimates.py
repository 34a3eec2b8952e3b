"""Estimates: the share of attempts that end within the range that a plan prints; and their cost."""

import math
import random
from collections.abc import Iterator, Sequence
from statistics import median
from time import perf_counter
from typing import NamedTuple

from launcher.plan.estimate import LEAST, MOST, Past, estimate
from launcher.specs.attempt import Attempt
from launcher.specs.launch import Launch
from launcher.state.store import Store
from tests.benchmarks.measure import Row, Settings, once
from tests.benchmarks.start import PASS
from tests.benchmarks.world import took, world
from tests.unit.plan.world import job
from tests.unit.state.attempts import attempt

GOAL = 0.8
_SUCCESSES = 0.85
_SLOW_NODE = 0.05


class Made(NamedTuple):
    """An attempt of a generated history: its document, its duration in s, and whether it succeeded."""

    document: str
    took_s: float
    succeeded: bool


class Kind(NamedTuple):
    """How the durations of a job are made.

    Attributes:
        noise: deviation of their logarithms.
        drift: change of the logarithm from one attempt to the next; `walk`: the deviation of that.
        edits: share of attempts with another document; `jump`: how far that moves the logarithm.
    """

    noise: float
    drift: float = 0.0
    walk: float = 0.0
    edits: float = 0.0
    jump: float = 0.0
    slow_nodes: bool = False


def some_kind(rng: random.Random) -> Kind:
    return Kind(
        noise=rng.choice([0.01, 0.03, 0.08, 0.15, 0.3, 0.6]),
        drift=rng.choice([0, 0, 0, 0.01, -0.02, 0.04]),
        walk=rng.choice([0, 0, 0.05]),
        edits=rng.choice([0, 0.1, 0.4]),
        jump=rng.choice([0, 0.05, 0.3]),
        slow_nodes=rng.random() < 1 / 3,
    )


def history(kind: Kind, rng: random.Random) -> Iterator[Made]:
    """The attempts of one job, the oldest first."""
    level, document = math.log(rng.uniform(30, 36_000)), 0
    for _ in range(rng.randint(3, 25)):
        if rng.random() < kind.edits:
            document += 1
            level += rng.gauss(0, kind.jump)
        level += kind.drift + rng.gauss(0, kind.walk)
        delay = rng.uniform(1.5, 4) if kind.slow_nodes and rng.random() < _SLOW_NODE else 1.0
        yield Made(
            str(document), delay * math.exp(level + rng.gauss(0, kind.noise)), rng.random() < _SUCCESSES
        )


class Score(NamedTuple):
    """How many attempts were judged, the share within the range, and the median of its end / its begin."""

    attempts: int
    within: float
    width: float


def score(histories: Sequence[Sequence[Made]]) -> Score:
    """Judge each success by those before it."""
    launch, hits, widths = job(), [], []
    for attempts in histories:
        past: list[Past] = []
        for each in attempts:
            if not each.succeeded:
                continue
            found = estimate(launch, each.document, past[:MOST])
            if found is not None:
                took_s = found.duration_s
                hits.append(took_s.low <= each.took_s <= took_s.high)
                widths.append(took_s.high / took_s.low)
            past.insert(0, Past(each.document, each.took_s, {}))
    return Score(len(hits), sum(hits) / len(hits), median(widths))


def generated(jobs: int, seed: int, kind: Kind | None = None) -> Score:
    rng = random.Random(seed)
    return score([list(history(kind or some_kind(rng), rng)) for _ in range(jobs)])


def rows(settings: Settings) -> Iterator[Row]:
    jobs = settings.size(3000)
    steady, edited = Kind(0.1), Kind(0.1, edits=0.5, jump=0.2)
    for what, kind in {"all kinds": None, "steady": steady, "edited": edited, "noisy": Kind(0.6)}.items():
        yield _row(f"histories, {what}", generated(jobs, 1, kind))
    runs = [took(PASS) for _ in range(settings.size(60) + LEAST)]
    yield _row("processes of this machine", score([[Made("", took_s, True) for took_s in runs]]))
    yield _reading(settings.size(1000))


def _row(what: str, found: Score) -> Row:
    note = f"{found.attempts:,} attempts; the range ends at {found.width:.2f} times its begin"
    return once(what, ours=100 * found.within, floor=100 * GOAL, target="about 1", unit="%", note=note)


def _reading(count: int) -> Row:
    """Reading and judging the history of many jobs, against reading their latest attempts."""
    launches = [job(f"job-{number}", "x" * 500) for number in range(count)]
    with (
        world() as folder,
        Store(str(folder / "ledger.sqlite"), readonly=False, durable=False, source=None) as store,
    ):
        store.record_all(_attempt(each, number) for each in launches for number in range(1, MOST + 1))
        keys = [each.key for each in launches]
        begin = perf_counter()
        store.decisive(keys)
        middle = perf_counter()
        found = store.successes(keys, MOST)
        for launch in launches:
            estimate(launch, "d", [Past(*each) for each in found[launch.key]])
        end = perf_counter()
    what = f"estimates of {count} jobs with {MOST} successes each; floor: their latest attempts"
    return once(what, ours=end - middle, floor=middle - begin, target="<= 3")


def _attempt(launch: Launch, number: int) -> Attempt:
    document = {"roles": [{"args": launch.app.roles[0].args}]}
    times = {"started_at": 100.0 * number, "ended_at": 100.0 * number + 10 + number}
    return attempt(launch.key, number, digest="d", document=document, state="succeeded", **times)
