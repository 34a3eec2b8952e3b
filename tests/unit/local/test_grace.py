"""Cancelling with another grace period than the app's own."""

import os
import signal
import time
from pathlib import Path

import pytest

from launcher.schedulers.local import rundir
from tests.unit.local.driving import Driven, sh

DEAF = sh("trap '' TERM; echo ready; while :; do sleep 1000 & wait; done")
LATE = sh("trap 'sleep 0.3; echo saved; exit' TERM; echo ready; while :; do sleep 0.01; done")


def cancel(app: Driven, *lines: str) -> None:
    with Path(rundir.cancel(app.app_dir)).open("a") as file:  # as clients do: the supervisor may read it now
        file.write("".join(f"{line}\n" for line in lines))
    os.kill(app.pid, signal.SIGTERM)


def test_a_shorter_grace_period_kills_sooner(app: Driven) -> None:
    app.start(app.role("main", DEAF), grace_s=1000.0)
    app.until_log("ready")
    cancel(app, "me@here", "grace 0.1")
    view = app.ended()
    assert (view.state, view.message) == ("cancelled", "cancelled by me@here")
    assert app.left() == []


def test_a_longer_grace_period_gives_time_to_clean_up(app: Driven) -> None:
    app.start(app.role("main", LATE), grace_s=0.0)
    app.until_log("ready")
    cancel(app, "me@here", "grace 1000")
    assert app.ended().state == "cancelled"
    assert app.log(stream="stdout") == "ready\nsaved\n"


@pytest.mark.parametrize("again", [["grace 0.1"], ["you@there", "grace 0.1"]])
def test_a_second_cancel_with_a_shorter_grace_period_ends_the_wait(app: Driven, again: list[str]) -> None:
    app.start(app.role("main", DEAF), grace_s=1000.0)
    app.until_log("ready")
    began = time.monotonic()
    cancel(app, "me@here")
    cancel(app, "me@here", *again)
    assert app.ended().message == "cancelled by me@here"
    assert time.monotonic() - began < 30
