"""An outage is reported once, by whichever of the threads that follow an engine notices it first."""

import time

import pytest

from launcher import outages
from launcher.schedulers.docker.client.errors import EngineGone
from launcher.schedulers.docker.client.wire import Patience

HOST = "unix:///engine.sock"
BROKEN = EngineGone("the connection to the engine broke")


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(outages, "report", found.append)
    monkeypatch.setattr(outages, "_away", set())
    monkeypatch.setattr(outages, "_ended", {})
    return found


def followers(count: int) -> list[Patience]:
    found = [Patience(HOST, sleep=lambda _: None) for _ in range(count)]
    for each in found:
        each.answered()
    return found


def test_a_follower_that_notices_late_reports_no_second_outage_and_the_next_one_is_reported(reports):
    first, late = followers(2)
    first.wait(BROKEN)
    first.answered()
    late.wait(BROKEN)
    assert len(reports) == 1
    time.sleep(0.001)
    late.wait(BROKEN)
    assert len(reports) == 2


def test_each_outage_is_reported_once(reports: list[str]) -> None:
    [one] = followers(1)
    for _ in range(3):
        one.wait(BROKEN)
        one.wait(BROKEN)
        one.answered()
        time.sleep(0.001)
    assert len(reports) == 3


def test_a_follower_asks_an_engine_again_within_seconds_however_long_it_was_away() -> None:
    """Until a watcher has asked again, every reader takes its apps for running ones."""
    pauses: list[float] = []
    one = Patience(HOST, sleep=pauses.append)
    for _ in range(20):
        one.wait(BROKEN)
    assert len(pauses) == 20
    assert max(pauses) <= 5
