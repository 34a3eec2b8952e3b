"""Records that version e8c8003 wrote: each prefix shows what that version showed, with its supervisor alive.

Recorded from real apps; users, boots and app ids are replaced.
"""

import json
from pathlib import Path

import pytest

from launcher.schedulers.local.appview import fold

APPS = json.loads(Path(__file__).with_name("records_of_e8c8003.json").read_text())


@pytest.mark.parametrize("name", sorted(APPS))
def test_an_older_record_shows_the_same_app_at_each_of_its_events(name):
    events, expected = APPS[name]["events"], APPS[name]["shown"]
    for number, line in enumerate(expected, 1):
        view = fold("".join(f"{each}\n" for each in events[:number]).encode(), locked=True)
        shown = [[each.name, *view.shown(each), each.code] for each in view.replicas]
        assert [view.state, view.message, view.code, view.num_restarts, *shown] == line, events[number - 1]


def test_the_records_hold_every_kind_of_event_that_a_local_app_had():
    kinds = {json.loads(line)["e"] for app in APPS.values() for line in app["events"]}
    assert kinds >= {
        "created",
        "waiting",
        "starting",
        "started",
        "spawn",
        "ready",
        "exit",
        "restart",
        "stopping",
        "ended",
    }
