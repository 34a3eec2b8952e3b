"""A plan asks a slow engine little: the list of containers has all that it needs to keep a job."""

import re

import pytest

from tests.engines.proxy import Proxy, everything

INSPECT = re.compile(r"GET /[^/]+/containers/([^/]+)/json")


@pytest.mark.parametrize("end", [False, True])
def test_a_plan_inspects_no_container_of_a_kept_job(scenario, monkeypatch, end):
    file = scenario.job("true" if end else "exec sleep 1000", replicas=3)
    scenario.launcher("apply", file, "--yes", *(["--wait"] if end else []))
    # An app of another test may be inspected: one that failed, and whose record lacks the end.
    own = [name for one in scenario.containers() for name in (one.id, one.id[:12], one.name)]
    with Proxy(scenario.folder / "p.sock", everything) as proxy, monkeypatch.context() as there:
        there.setenv("DOCKER_HOST", proxy.host)  # of the plan alone: the watcher inspects its replicas
        assert scenario.actions(file) == {"job": "keep"}
    inspected = [found[1] for asked in proxy.seen if (found := INSPECT.match(asked))]
    assert [name for name in inspected if name in own] == []
    if not end:
        scenario.cancel("job")
