"""Records of version 0.1: its journals, and the engine's answers, saved while that version ran each app.

`seen` in `engine.json` is that version's own view of the app at that moment.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from launcher.schedulers.docker.client.objects import Container, from_inspect, from_list
from launcher.schedulers.docker.journal import Journal, fold
from launcher.schedulers.docker.names import is_replica, where
from launcher.schedulers.docker.status import DockerAppView, view
from tests.unit.docker.states import next_step

FOLDER = Path(__file__).parent / "records_0_1"
NAMES = sorted(each.name for each in FOLDER.iterdir())


class Record:
    def __init__(self, name: str) -> None:
        answers = json.loads((FOLDER / name / "engine.json").read_text())
        self.journal: Journal = fold((FOLDER / name / "journal.jsonl").read_bytes())
        self.inspected = [from_inspect(each) for each in answers["inspect"]]
        self.listed = [from_list(each) for each in answers["list"]]
        self.seen: dict[str, Any] = answers["seen"]
        self.expected = sorted(where(each) for each in self.inspected if is_replica(each))

    def read(self, containers: list[Container], journal: Journal | None) -> DockerAppView:
        found = view(containers, journal, expected_replicas=self.expected)
        assert found is not None
        return found


ENDED = [name for name in NAMES if Record(name).seen["state"] not in ("running", "waiting")]


@pytest.mark.parametrize("name", NAMES)
def test_an_app_of_version_0_1_has_the_same_state_as_in_that_version(name: str) -> None:
    record = Record(name)
    found = record.read(record.inspected, record.journal)
    replicas = [[each.label, each.state, each.num_restarts, each.waits] for each in found.replicas]
    assert {
        "state": found.state, "message": found.message, "num_restarts": found.num_restarts,
        "drift": found.drift, "final": found.final, "replicas": sorted(replicas),
    } == record.seen  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_the_state_is_derived_from_the_list_of_containers_alone(name: str) -> None:
    record = Record(name)
    assert record.read(record.listed, record.journal).state == record.seen["state"]


@pytest.mark.parametrize("name", [name for name in ENDED if Record(name).inspected])
def test_the_containers_of_a_0_1_app_show_its_end_without_a_journal(name: str) -> None:
    record = Record(name)
    assert record.read(record.inspected, None).state == record.seen["state"]


@pytest.mark.parametrize("name", ENDED)
def test_the_journal_of_a_0_1_app_shows_its_end_without_containers(name: str) -> None:
    record = Record(name)
    found = record.read([], record.journal)
    assert (found.state, found.message) == (record.seen["state"], record.seen["message"])


@pytest.mark.parametrize(("name", "step"), [
    ("live", "wait"),
    ("ordered-before-ready", "wait"),
    ("ordered-ready", "wait"),
    ("failed-while-unwatched", "restart r/0, halt peer/0"),
    ("in-pause", "start r/0 r/1"),  # after the pause, and it is not counted again
    ("in-pause-replica", "start r/0"), ("succeeded", "leave"), ("used-up-role", "leave"),
])  # fmt: skip
def test_a_watcher_continues_an_app_of_version_0_1(name: str, step: str) -> None:
    record = Record(name)
    text = next_step(record.inspected, record.journal, expected=record.expected, now=2e9)
    for each in record.inspected:
        role, k = where(each)
        text = text.replace(each.id, f"{role}/{k}")
    assert sorted(text.split()) == sorted(step.split())
