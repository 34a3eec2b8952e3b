"""Events are what their published schema says, and the schema is what the code says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import jsonschema

from launcher.apply.event_schema import EVENTS, event_schema
from launcher.apply.events import EventName
from tests.scenario import Scenario

PUBLISHED = Path(__file__).resolve().parents[3] / "schemas" / "event-v1.schema.json"


def test_the_published_schema_is_the_one_of_the_code() -> None:
    assert PUBLISHED.read_text() == json.dumps(event_schema(), indent=2) + "\n"


def test_every_event_is_described() -> None:
    assert set(EVENTS) == set(get_args(EventName))


def test_every_line_of_an_apply_fits_the_schema(scenario: Scenario) -> None:
    file = str(scenario.job("echo hello", replicas=2))
    made = _lines(scenario, file)
    again = _lines(scenario, file, "--rerun", "job")
    check = jsonschema.Draft202012Validator(event_schema()).validate
    for event in made + again:
        check(event)
    names = [event["event"] for event in made]
    assert names[0] == "planned"
    assert names[-1] == "done"
    assert [event["text"] for event in made if event["event"] == "log"] == ["hello\n"] * 2


def _lines(scenario: Scenario, *words: str) -> list[dict[str, Any]]:
    done = scenario.launcher("apply", *words, "--yes", "--wait", "--logs", "--format", "jsonl")
    return [json.loads(line) for line in done.out.splitlines()]
