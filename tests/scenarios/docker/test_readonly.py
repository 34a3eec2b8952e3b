"""A plan only reads from the engine, and asks little: it works where every writing request is refused."""

import re

import pytest

from tests.engines.proxy import Proxy, everything


@pytest.fixture
def proxy(tmp_path):
    """From now on commands reach the engine only through a socket that lets them read."""

    def begin():
        made = Proxy(tmp_path / "ro.sock")
        opened.append(made)
        way.setenv("DOCKER_HOST", made.host)
        return made

    opened = []
    with pytest.MonkeyPatch.context() as way:
        yield begin
    for made in opened:
        made.break_off()


def test_a_plan_of_a_running_job_only_reads_whatever_has_changed(scenario, proxy):
    file, _ = scenario.running()
    reading = proxy()
    assert scenario.actions(file) == {"job": "keep"}
    scenario.job("echo other")
    assert scenario.actions(file) == {"job": "replace"}
    scenario.plan(file, "--show-request")
    assert reading.refused == []
    reading.allowed = everything
    scenario.cancel("job")


def test_a_plan_of_an_ended_job_only_reads_even_after_local_records_are_lost(scenario, proxy):
    file = scenario.job("exit 3")
    scenario.run_to_end(file, code=5)
    reading = proxy()
    assert scenario.actions(file) == {"job": "hold"}
    scenario.forget()
    assert scenario.actions(file) == {"job": "hold"}
    assert reading.refused == []


def test_dry_runs_only_read_and_an_apply_is_refused(scenario, proxy):
    """Without the refusal the tests of this file would prove nothing."""
    file = scenario.job("true", replicas=3)
    reading = proxy()
    assert scenario.actions(file) == {"job": "create"}
    for command, *options in (["run", "--dryrun"], ["validate"], ["compile"], ["plan", "--show-request"]):
        scenario.launcher(command, file, *options)
    assert reading.seen != []
    assert reading.refused == []
    assert scenario.launcher("apply", file, "--yes", code=None).code != 0
    assert reading.refused != []
    assert scenario.things() == []


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
