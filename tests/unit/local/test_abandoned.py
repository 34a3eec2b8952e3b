"""The supervisor dies before it has recorded the end: what follows from its record, and what does not."""

from pathlib import Path

from launcher.schedulers.local import rundir
from launcher.schedulers.local.appview import AppView, fold
from tests.unit.local.driving import Driven
from tests.unit.local.test_eventfile import START, end, event, lines, spawn

GO = [event("starting"), spawn(0), spawn(1), event("started")]


def created(max_retries: int = 0, policy: str = "APPLICATION", count: int = 2) -> list[dict[str, object]]:
    return [START, event("created", roles=[["main", count]], retries=[[max_retries, policy]])]


def left(*events: dict[str, object]) -> AppView:
    """Return the view of an app whose supervisor died after these events."""
    return fold(lines(*events), locked=False)


def test_an_implied_end_has_the_time_of_the_last_event_and_the_code_that_decided_it() -> None:
    view = left(*created(), *GO, end(0, 3), {**end(1), "t": 5_000_000_000})
    assert (view.code, view.ended_at) == (3, 5.0)
    assert left(*created(), *GO, end(0), end(1)).code == 0


def test_a_recorded_end_is_not_an_abandoned_one() -> None:
    ended = event("ended", state="failed", message="m", code=3)
    assert not left(*created(), *GO, end(0, 3), end(1), ended).abandoned
    assert not fold(lines(*created(), *GO, end(0), end(1)), locked=True).abandoned  # it may yet be recorded


def test_an_app_whose_supervisor_is_killed_before_it_reads_the_cancel_is_cancelled(app: Driven) -> None:
    app.start(app.role("main", ["sleep", "1000"]))
    Path(rundir.cancel(app.app_dir)).write_text("interrupt bob\n")
    app.kill()
    assert (app.view.state, app.view.message, app.view.abandoned) == ("cancelled", "interrupted by bob", True)
