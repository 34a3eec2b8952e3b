"""A plan only reads from the engine: it works where every writing request is refused."""

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
