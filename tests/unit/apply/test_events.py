"""Events match their published schema, and the schema matches the code."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, get_args

import jsonschema
import pytest

from launcher.apply import events as made_by
from launcher.apply.events import EVENTS, EventName, Events, Outcome, Result, event_schema
from launcher.cli.live_display import image_line, image_progress
from launcher.specs.launch import JobKey
from launcher.state.records import AppRecord
from tests.scenario import Scenario

KEY = JobKey("default", "default", "job")
OTHER = JobKey("default", "default", "other")


def app(state: str) -> AppRecord:
    return AppRecord("local_cwd", "default", "job-1-x", state=state)


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


@pytest.mark.parametrize(("outcomes", "code"), [
    ([], 0),
    ([Outcome(key=KEY, kind="create", app=app("succeeded"))], 0),
    ([Outcome(key=KEY, kind="keep", app=app("failed"))], 5),
    ([Outcome(key=KEY, kind="hold", app=app("failed"))], 5),
    ([Outcome(key=KEY, kind="keep", disabled=True)], 0),
    ([Outcome(key=KEY, kind="keep", app=app("failed"), disabled=True)], 0),
    ([Outcome(key=KEY, kind="destroy", app=app("cancelled"))], 0),
    ([Outcome(key=KEY, kind="keep", disabled=True), Outcome(key=KEY, kind="hold", app=app("lost"))], 5),
    ([Outcome(key=KEY, kind="create", error="no"), Outcome(key=KEY, kind="hold", app=app("lost"))], 1),
    ([Outcome(key=KEY, kind="create", error="no", code="stale")], 4),
    ([Outcome(key=KEY, kind="create", error="no", code=code) for code in ("stale", "error")], 1),
])  # fmt: skip
def test_the_exit_code_of_a_wait_counts_the_jobs_that_are_to_run(outcomes: list[Outcome], code: int) -> None:
    assert Result(outcomes=tuple(outcomes), waited=True).exit_code == code
    assert Result(outcomes=tuple(outcomes)).exit_code == (code if code in (1, 4) else 0)


def _lines(scenario: Scenario, *words: str, code: int = 0) -> list[dict[str, Any]]:
    done = scenario.launcher("apply", *words, "--yes", "--wait", "--logs", "--format", "jsonl", code=code)
    return [json.loads(line) for line in done.out.splitlines()]


@pytest.mark.slow
def test_an_ended_event_has_the_app_its_outcome_and_its_time(scenario: Scenario) -> None:
    scenario.launcher("apply", str(scenario.job("exit 3")), "--yes", "--wait", code=5)
    file = str(scenario.job("sleep 0.2; exit 3"))
    made = _lines(scenario, file, "--rerun", "job", code=5)
    (ended,) = [event for event in made if event["event"] == "ended"]
    (attempt,) = [each for each in scenario.attempts() if each.number == 2]
    assert (ended["handle"], ended["attempt"], ended["exit_code"]) == (attempt.handle, 2, 3)
    assert (ended["started_at"], ended["ended_at"]) == (attempt.started_at, attempt.ended_at)
    assert ended["at"] == ended["ended_at"] <= ended["time"]
    assert ended["ended_at"] - ended["started_at"] >= 0.2


def test_reports_of_several_threads_are_emitted_in_the_order_in_which_things_happened() -> None:
    heard: list[dict[str, Any]] = []
    events = Events(lambda event: heard.append(dict(event)))
    events.together_s = 0.5
    start = threading.Barrier(8)

    def follow(n: int) -> None:
        start.wait()
        events.report("ended", JobKey("default", "default", f"job-{n}"), 200.0 - n)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(follow, range(8)))
    assert len(heard) == 8
    assert [event["at"] for event in heard] == sorted(event["at"] for event in heard)
    assert all(event["time"] > event["at"] for event in heard)


def test_events_of_one_job_stay_in_order_whatever_their_clocks_say() -> None:
    heard: list[dict[str, Any]] = []
    events = Events(lambda event: heard.append(dict(event)))
    events.together_s = 0.2
    thread = threading.Thread(target=events.report, args=("started", OTHER, 15.0))
    thread.start()
    while not events._reported:
        pass
    events.report("restarting", KEY, 20.0)
    events.report("ended", KEY, 10.0)
    thread.join()
    assert [event["event"] for event in heard] == ["started", "restarting", "ended"]


def test_a_delayed_report_is_emitted_before_an_event_that_happens_now() -> None:
    heard: list[str] = []
    events = Events(lambda event: heard.append(event["event"]))
    events.together_s = 60.0
    thread = threading.Thread(target=events.report, args=("ended", KEY, 10.0), daemon=True)
    thread.start()
    while not events._reported:
        pass
    events.emit("kept", OTHER, app_id="x")
    assert heard == ["ended", "kept"]


def test_an_event_never_happens_after_the_time_of_its_report() -> None:
    made = made_by.event("kept", at=time.time() + 1000)
    assert made["at"] == made["time"]


def _progress(*recorded: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events of an app whose engine reports `recorded`."""
    heard: list[dict[str, Any]] = []
    events = Events(lambda event: heard.append(dict(event)))
    key = JobKey("default", "default", "train")
    events.introduce(key, attempt=1, app_id="train-1-k3fwx", handle="local_docker://default/train-1-k3fwx")
    for kind, facts in recorded:
        events.progress("train-1-k3fwx", kind, facts)
        events.progress("somebody-else", kind, facts)
    return heard


def test_progress_of_images_is_reported_for_their_job_and_fits_the_schema() -> None:
    heard = _progress(
        ("pulling", {"image": "web:1", "done": 0, "total": 9}),
        ("pulled", {"image": "web:1"}),
        ("building", {"image": "w:1", "line": "Step 1/3"}),
        ("building", {"image": "w:1", "line": "Step 2/3"}),
        ("built", {"image": "w:1", "id": "sha256:00"}),
        ("pushing", {"image": "w:1", "done": 3, "total": 9}),
        ("pushed", {"image": "w:1"}),
    )
    for event in heard:
        jsonschema.Draft202012Validator(event_schema()).validate(event)
    assert [event["event"] for event in heard] == [
        "pulling", "pulled", "building", "building", "built", "pushing", "pushed",
    ]  # fmt: skip
    assert {event["job"] for event in heard} == {"train"}


def test_the_progress_of_an_image_is_not_reported_a_hundred_times_a_second() -> None:
    heard = _progress(*(("pulling", {"image": "web:1", "done": n, "total": 100}) for n in range(100)))
    assert len(heard) < 10


def test_the_text_of_image_progress_shows_the_beginning_the_build_lines_and_the_end() -> None:
    heard = _progress(
        ("pulling", {"image": "web:1", "done": 0, "total": 0}),
        ("pulled", {"image": "web:1"}),
        ("building", {"image": "w:1", "line": "Step 1/3"}),
    )
    assert [image_line(event["event"], event, "train") for event in heard] == [
        "train pulling web:1",
        "train pulled web:1",
        "train w:1: Step 1/3",
    ]
    halfway = {**heard[0], "done": 12_000_000, "total": 48_000_000}
    assert image_line("pulling", halfway, "train") is None
    assert image_progress("pulling", halfway) == "pulling web:1 12 of 48 MB"
