"""Job keys, app ids, launches and attempts."""

import json
import pickle
from dataclasses import FrozenInstanceError

import pytest

from launcher.specs import AppDef, Attempt, JobKey, Lifecycle, attempt_id
from tests.unit.specs.strategies import launch_of

KEY = JobKey("vision", "default", "train")


def test_a_job_key_is_a_tuple_of_project_target_and_job():
    assert KEY == ("vision", "default", "train") == (KEY.project, KEY.target, KEY.job)
    assert {KEY: 1}[JobKey(*KEY)] == 1
    assert pickle.loads(pickle.dumps(KEY)) == KEY
    assert sorted([KEY, KEY._replace(job="a")])[0].job == "a"


@pytest.mark.parametrize(("target", "session"), [("default", "vision"), ("prod", "vision.prod")])
def test_the_session_is_the_project_with_the_target_unless_default(target, session):
    key = KEY._replace(target=target)
    assert key.session == session
    assert str(key) == f"{session}/train"


def test_an_app_id_is_the_same_on_every_machine():
    assert attempt_id(KEY, 7) == "train-7-iq6dz"


def test_equally_named_jobs_of_two_projects_or_targets_have_two_ids():
    keys = [
        KEY,
        KEY._replace(project="speech"),
        KEY._replace(target="prod"),
        JobKey("visiond", "efault", "train"),
    ]
    assert len({attempt_id(key, 1) for key in keys}) == 4


def test_a_launch_is_a_value_with_the_default_policies():
    launch = launch_of(AppDef("app"))
    assert launch.lifecycle == Lifecycle(
        on_change=None,
        on_failed="hold",
        on_cancelled="hold",
        on_lost="hold",
        max_attempts=None,
        protect=False,
    )
    with pytest.raises(FrozenInstanceError):
        launch.scheduler = "other"


def attempt(**fields: object) -> Attempt:
    given = {
        "key": KEY,
        "number": 1,
        "app_id": "a-1",
        "scheduler": "s",
        "digest": "d",
        "document": {"x": [1]},
    }
    return Attempt(**{**given, **fields})


def test_an_attempt_survives_json():
    full = attempt(
        state="failed", started_at=1.5, ended_at=2.5, message="m", exit_code=3, owner="o", commit="c"
    )
    for one in (attempt(), full):
        assert Attempt.from_json(json.loads(json.dumps(one.to_json()))) == one


def test_fields_of_a_later_version_are_left_out():
    assert Attempt.from_json({**attempt().to_json(), "later": 1}) == attempt()


@pytest.mark.parametrize(
    ("state", "live"),
    [("reserved", True), ("created", True), ("running", True)]
    + [(state, False) for state in ("succeeded", "failed", "cancelled", "lost")],
)
def test_the_state_of_an_attempt_decides_whether_it_is_live(state, live):
    assert attempt(state=state).is_live is live


def test_the_handle_of_an_attempt_has_scheduler_session_and_app_id():
    assert attempt(key=KEY._replace(target="prod")).handle == "s://vision.prod/a-1"
