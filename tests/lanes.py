"""Lanes of tests, by what they need: README's test command runs what needs only Python and little time.

`-m engine`, `-m editor` and `-m slow` run the others, `-m ""` all of them. A run ends with what it left out.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import count

import pytest
from hypothesis import HealthCheck, settings

LANES = {
    "engine": "need a Docker engine or a Slurm cluster",
    "editor": "need the language servers of editors",
    "slow": "take long",
}
ENGINE_FIXTURES = frozenset({"token", "slurm", "slurm_ssh", "own_slurm"})
ENGINE_CASES = frozenset({"local_docker", "slurm", "slurm_ssh"})
EDITOR_TESTS = "tests/editors/"
EVERY_ACT = os.environ.get("LAUNCHER_KILL_ACTS") == "all"
"""By hand, with LAUNCHER_KILL_ACTS=all: sweeps try also what `sampled`, `thinned` and `acts` pass over."""

_LONG_S = 900.0
"""The time limit of a test from which on it is among the longest."""
_LEFT_OUT = pytest.StashKey[Counter[str]]()


def sampled(values: Iterable[object], *quick: object, first: int = 0, every: int = 1) -> list[object]:
    """Return the parameters of a test: those of `quick` for the quick lane, the others for the slow lane.

    Of the others only each `every`-th from the `first`, unless EVERY_ACT. Where several tests sweep the same
    steps, their `first` differ, so that together they try each step.
    """
    values = list(values)
    others = thinned([value for value in values if value not in quick], first=first, every=every)
    return [
        value if value in quick else pytest.param(value, marks=pytest.mark.slow)
        for value in values
        if value in quick or value in others
    ]


def thinned(values: Iterable[object], *, first: int = 0, every: int) -> list[object]:
    """Return each `every`-th of the values from the `first`, or all of them where EVERY_ACT."""
    return list(values) if EVERY_ACT else list(values)[first::every]


def acts(first: int = 1, every: int = 1) -> Iterator[int]:
    """Return an endless iterator of the acts at which a sweep kills a process; all where EVERY_ACT."""
    return count(1) if EVERY_ACT else count(first, every)


def seeds(number: int) -> range:
    """Return the seeds of random kills: so many, or those that LAUNCHER_KILL_SEEDS names: `0-99`."""
    first, _, last = os.environ.get("LAUNCHER_KILL_SEEDS", f"0-{number - 1}").partition("-")
    return range(int(first), int(last) + 1)


def mark(item: pytest.Item) -> None:
    """Give a test the marks of what its fixtures need."""
    names = frozenset(getattr(item, "fixturenames", ()))
    call = getattr(item, "callspec", None)
    case = None if call is None else call.params.get("case")
    if names & ENGINE_FIXTURES or case in ENGINE_CASES:
        item.add_marker("engine")
    if case == "local_dir":
        item.add_marker("slow")
    if item.nodeid.startswith(EDITOR_TESTS):
        item.add_marker("editor")


def dealt(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """Order tests so that each worker begins with its part of the longest: none is left for the end.

    Worker by worker, xdist gives out parts of what is left that are equally long.
    """
    longest, others = [], []
    for each in items:
        (longest if _may_take_s(each) >= _LONG_S else others).append(each)
    found: list[pytest.Item] = []
    for k in range(workers):
        mine = longest[k::workers]
        size = (len(items) - len(found)) // (workers - k)
        rest = max(0, size - len(mine))
        found += mine + others[:rest]
        del others[:rest]
    return found + others


def _may_take_s(item: pytest.Item) -> float:
    limit = item.get_closest_marker("timeout")
    return limit.args[0] if limit is not None and limit.args else 0.0


def register_profiles() -> None:
    """At import of conftest, before hypothesis looks for the profile that the command line names."""
    # Other tests run beside ours, so how long an example takes proves nothing.
    unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("quick", unhurried, derandomize=True, max_examples=20)
    settings.register_profile("random", unhurried, print_blob=True, max_examples=25)


def choose_examples(config: pytest.Config) -> None:
    """Have property tests draw the same examples in each run, unless a seed or a profile is given."""
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("quick" if config.getoption("--hypothesis-seed") is None else "random")


def note(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Note the lane of each test that is not run: the first one that it is marked with.

    With `-m ""` no lane is left out; these tests are deselected by name.
    """
    if not config.getoption("markexpr"):
        return
    left_out = config.stash.setdefault(_LEFT_OUT, Counter())
    for item in items:
        lane = next((lane for lane in LANES if item.get_closest_marker(lane)), "")
        if lane:
            left_out[lane] += 1


def of_worker(config: pytest.Config, output: dict[str, object] | None) -> None:
    """Hand the counts from a worker of xdist to the controller: all workers count the same."""
    if output is None:
        config.workeroutput["left_out"] = dict(config.stash.get(_LEFT_OUT, {}))
    elif isinstance(found := output.get("left_out"), dict):
        config.stash[_LEFT_OUT] = Counter(found)


def summary(config: pytest.Config) -> list[str]:
    """Return a line for each lane that was left out."""
    left_out = config.stash.get(_LEFT_OUT, Counter())
    return [
        f"left out: {left_out[lane]} tests that {need} (-m {lane})"
        for lane, need in LANES.items()
        if left_out[lane]
    ]
