"""Commands on several Docker apps observe the engine once, not once for each name."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.engines.proxy import Proxy, everything

NAMES = [f"part-{number}" for number in range(6)]


@pytest.fixture
def engine(scenario: Any, tmp_path: Any) -> Iterator[Proxy]:
    """The proxy before the engine, which runs an app for each of NAMES."""
    with Proxy(tmp_path / "p.sock", everything) as proxy, pytest.MonkeyPatch.context() as behind:
        behind.setenv("DOCKER_HOST", proxy.host)
        scenario.apply(scenario.job("exec sleep 1000", name="part", top="matrix: {n: {range: [0, 6]}}"))
        yield proxy
        scenario.cancel("part", "--yes", "--grace", "0", code=None)


def requests(engine: Proxy, act: Callable[[], Any]) -> list[str]:
    """The requests of a command; samples of the watcher are left out."""
    first = len(engine.seen)
    act()
    return [each for each in engine.seen[first:] if "/stats?" not in each]


def observations(seen: list[str]) -> int:
    """How often all jobs of the engine were listed."""
    return sum("/containers/json" in each and "launcher.job" in each for each in seen)


def test_a_wait_for_six_names_sends_as_many_requests_as_a_wait_for_two(scenario, engine):
    def wait(count: int) -> list[str]:
        names = NAMES[:count]
        return requests(engine, lambda: scenario.launcher("wait", *names, "--timeout", "0", code=5))

    def fewest(count: int) -> int:
        return min(len(wait(count)) for _ in range(3))  # the watcher sends requests of its own at times

    assert fewest(6) == fewest(2)
    assert observations(wait(6)) == 1


def test_a_cancel_of_several_names_observes_the_engine_once(scenario, engine):
    assert observations(requests(engine, lambda: scenario.cancel(*NAMES, "--grace", "0"))) == 1
    assert [scenario.attempts(name)[-1].state for name in NAMES] == ["cancelled"] * 6
