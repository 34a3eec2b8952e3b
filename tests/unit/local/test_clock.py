"""A limit on the time of an app counts the time that has passed, also where the clock is set meanwhile."""

from __future__ import annotations

import time

import pytest

from launcher.holding.app import App
from launcher.schedulers import loop as loop_module
from launcher.schedulers.local import driver as driver_module
from launcher.schedulers.local.driver import Driver
from launcher.schedulers.loop import Loop

LIMIT_S = 60.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch):
    """A function that sets the clock ahead by so many seconds, for the driver alone."""
    real_s, real_ns = time.time, time.time_ns

    class Clock:
        ahead_s = 0.0
        clock_gettime, monotonic = time.clock_gettime, time.monotonic
        if hasattr(time, "CLOCK_BOOTTIME"):
            CLOCK_BOOTTIME = time.CLOCK_BOOTTIME

        def time(self) -> float:
            return real_s() + self.ahead_s

        def time_ns(self) -> int:
            return real_ns() + int(self.ahead_s * 1e9)

    found = Clock()
    for module in (driver_module, loop_module):
        monkeypatch.setattr(module, "time", found)
    return found


@pytest.fixture
def app(clock) -> App:
    made = App()
    made.take({"e": "created", "t": 1, "roles": [("a", 1)], "timeout": LIMIT_S})
    return made


@pytest.fixture
def driver(app, clock) -> Driver:
    return Driver(app, [], Loop(), None, None, grace_s=1.0, secrets=())


def begin(app: App, driver: Driver, clock) -> None:
    app.take({"e": "starting", "t": clock.time_ns()})
    driver.begin()
    app.take({"e": "spawn", "t": clock.time_ns(), "role": "a", "k": 0, "pid": 1, "start": 1})


def turn(app: App, driver: Driver) -> list[dict]:
    """Run the loop of `hold` once; return the facts."""
    facts = driver.wait(driver.now())
    for fact in facts:
        app.take(fact)
    return facts


@pytest.mark.parametrize("by", [3600.0, -3600.0])
def test_an_app_does_not_time_out_because_the_clock_is_set(app, driver, clock, by):
    begin(app, driver, clock)
    clock.ahead_s = by
    assert app.decide(driver.now()) is None  # before the loop has seen it
    [fact] = turn(app, driver)
    assert (fact["e"], round(fact["by"])) == ("clock", by)
    assert app.decide(driver.now()) is None
    assert 0 < app.deadline() - driver.now() <= LIMIT_S
    assert turn(app, driver) == []
    assert app.decide(driver.now() + LIMIT_S)["why"] == "timeout"


def test_a_clock_that_is_set_before_the_start_does_not_count(app, driver, clock):
    clock.ahead_s = 3600.0  # while the app waits for its turn
    begin(app, driver, clock)
    assert turn(app, driver) == []
    assert LIMIT_S - 10 < app.deadline() - driver.now() <= LIMIT_S


def test_a_clock_that_is_corrected_by_little_is_no_event(app, driver, clock):
    begin(app, driver, clock)
    clock.ahead_s = 0.5
    assert turn(app, driver) == []
