"""Two engines: what runs at the one is neither lost nor stopped because the other one is asked."""

from __future__ import annotations

import pytest

from tests import engines
from tests.engines import own
from tests.engines.docker import Daemon
from tests.engines.own import OwnEngine


@pytest.fixture
def other(scenario, monkeypatch):
    """Switches to another engine and back, for every command from then on."""
    if why := own.reason():
        if "docker" in engines.required():
            pytest.fail(f"LAUNCHER_REQUIRE names docker, but {why}")
        pytest.skip(why)
    before = scenario.daemon
    with OwnEngine() as made, monkeypatch.context() as way:

        def switch(*, back: bool = False) -> None:
            if back:
                way.undo()
            else:
                way.setenv("DOCKER_HOST", made.host)
            scenario.daemon = Daemon()

        yield switch
    scenario.daemon = before


def test_what_runs_at_one_engine_is_not_lost_at_another(scenario, other):
    file, second = scenario.job("exec sleep 1000"), scenario.job("true", name="second")
    scenario.apply(file)
    other()
    scenario.run_to_end(second)
    assert [attempt.state for attempt in scenario.attempts()] == ["running"]
    assert scenario.actions(file) == {"job": "keep"}
    changed = scenario.job("exec sleep 2000")
    refused = scenario.launcher("apply", changed, "--yes", "--allow-destructive", code=1)
    assert "is at the engine" in refused.err
    assert [attempt.state for attempt in scenario.attempts()] == ["running"]
    for words in (["cancel", "job"], ["wait", "job"], ["status", "job"], ["logs", "job"]):
        assert "is at the engine" in scenario.launcher(*words, code=1).err
    scenario.settle()
    other(back=True)
    assert scenario.actions(file) == {"job": "replace"}
    scenario.cancel("job")
