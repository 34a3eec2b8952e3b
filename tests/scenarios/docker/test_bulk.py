"""Commands on several Docker apps observe the engine once, not once for each name."""

import os
import re
from pathlib import Path
from typing import Any

from tests.engines.proxy import Proxy, everything

NAMES = [f"part-{number}" for number in range(6)]


ABOUT = re.compile(r"/(?:containers|volumes)/(?!json)([^/?]+)|launcher\.app-id%3D([^%]+)")
"""A request about one container, volume or app."""


def requests(scenario: Any, tmp_path: Path, *argv: str, code: int = 0) -> list[str]:
    """Run a command; return its requests, without those about watchers and single apps of other tests."""
    own = tuple(one.id for one in scenario.containers())
    with Proxy(tmp_path / "p.sock", everything) as proxy:  # the watcher of the apps does not send through it
        scenario.launcher(*argv, env={**os.environ, "DOCKER_HOST": proxy.host}, code=code)
        seen = list(proxy.seen)
    about = [next(filter(None, found.groups()), "") if (found := ABOUT.search(each)) else "" for each in seen]
    return [
        each for each, name in zip(seen, about, strict=True) if not name or name.startswith(("part-", *own))
    ]


def observations(seen: list[str]) -> int:
    """Return how often all jobs of the engine were listed."""
    return sum("/containers/json" in each and "launcher.job" in each for each in seen)


def test_a_wait_and_a_cancel_of_six_names_observe_the_engine_once(scenario: Any, tmp_path: Path):
    def wait(count: int) -> list[str]:
        return requests(scenario, tmp_path, "wait", *NAMES[:count], "--timeout", "0", code=5)

    scenario.apply(scenario.job("exec sleep 1000", name="part", top="matrix: {n: {range: [0, 6]}}"))
    six = wait(6)
    assert len(six) == len(wait(2))
    assert observations(six) == 1
    assert observations(requests(scenario, tmp_path, "cancel", *NAMES, "--grace", "0")) == 1
    assert [scenario.attempts(name)[-1].state for name in NAMES] == ["cancelled"] * 6
