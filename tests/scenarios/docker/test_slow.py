"""An engine whose answers take long is asked little: the list of containers tells enough to keep a job."""

from __future__ import annotations

import re

import pytest

from tests.engines.proxy import Proxy, everything

INSPECT = re.compile(r"GET /[^/]+/containers/[^/]+/json")


@pytest.fixture
def proxy(scenario, monkeypatch):
    with Proxy(scenario.folder / "p.sock", everything) as made, monkeypatch.context() as there:
        there.setenv("DOCKER_HOST", made.host)
        yield made


@pytest.mark.parametrize("end", [False, True])
def test_a_plan_inspects_nothing_of_what_it_keeps(scenario, proxy, end):
    file = scenario.job("true" if end else "exec sleep 1000", replicas=3)
    scenario.launcher("apply", file, "--yes", *(["--wait"] if end else []))
    proxy.seen.clear()
    assert scenario.actions(file) == {"job": "keep"}
    assert [asked for asked in proxy.seen if INSPECT.match(asked)] == [], proxy.seen
    if not end:
        scenario.cancel("job")
