"""A start or an end that the ledger has missed is recorded later."""

from dataclasses import replace

import pytest

from launcher.apply.engines import catch_up
from launcher.state.store import Store
from tests.unit.state.attempts import attempt


@pytest.mark.parametrize(
    ("was", "seen", "then"),
    [
        ("", "running", "running"),
        ("", "failed", "failed"),
        ("created", "running", "running"),
        ("created", "succeeded", "succeeded"),
        ("running", "succeeded", "succeeded"),
        ("lost", "succeeded", "succeeded"),
        ("failed", "succeeded", "failed"),
        ("failed", "running", "failed"),
        ("running", "created", "running"),
        ("created", "waiting", "waiting"),
        ("waiting", "running", "running"),
        ("waiting", "skipped", "skipped"),
        ("waiting", "succeeded", "succeeded"),
        ("running", "waiting", "running"),
    ],
)
def test_a_start_and_an_end_that_were_missed_are_recorded(was: str, seen: str, then: str) -> None:
    made = attempt()
    with Store.open() as store:
        if was:
            store.record(replace(made, state=was))
        catch_up(store, replace(made, state=seen), store.app(made.app_id))
        entry = store.app(made.app_id)
        assert entry.state == then
