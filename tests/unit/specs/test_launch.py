"""Job keys, app ids, launches, attempts, triggers, and what attempts stand on."""

import json
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given, strategies as st

from launcher.specs import AppDef, Attempt, JobKey, Lifecycle, attempt_id
from launcher.specs.attempt import StoodOn, needs_from_text, needs_to_text
from launcher.specs.inputs import adopted, changed_globs, combine
from launcher.specs.outputs import needs_variable
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
    held = dict.fromkeys(("on_failed", "on_cancelled", "on_lost"), "hold")
    assert launch.lifecycle == Lifecycle(on_change=None, max_attempts=None, protect=False, **held)
    with pytest.raises(FrozenInstanceError):
        launch.scheduler = "other"


def attempt(**fields: object) -> Attempt:
    given = {"key": KEY, "number": 1, "app_id": "a-1", "scheduler": "s", "digest": "d"}
    return Attempt(**{**given, "document": {"x": [1]}, **fields})


def test_an_attempt_survives_json():
    full = attempt(
        state="failed", started_at=1.5, ended_at=2.5, message="m", exit_code=3, owner="o", commit="c"
    )
    repeated = attempt(edition=3, needs=(StoodOn("prepare", 4, 2, "prepare-4-x", "local_cwd"),))
    for one in (attempt(), full, repeated):
        assert Attempt.from_json(json.loads(json.dumps(one.to_json()))) == one


def test_an_attempt_is_its_own_edition_unless_it_repeats_another():
    assert attempt(number=7).edition == 7
    assert attempt(number=7, edition=3).edition == 3


def test_records_of_later_and_of_older_versions_are_read():
    made = attempt(number=7)
    assert Attempt.from_json({**made.to_json(), "later": 1}) == made
    old = {name: value for name, value in made.to_json().items() if name not in ("edition", "needs")}
    assert Attempt.from_json(old) == made


def test_the_handle_of_an_attempt_has_scheduler_session_and_app_id():
    assert attempt(key=KEY._replace(target="prod")).handle == "s://vision.prod/a-1"


stood_on = st.builds(StoodOn, st.text(), st.integers(1), st.integers(1), st.text(), st.text())


@given(st.lists(stood_on, max_size=4))
def test_needs_come_back_sorted_from_their_text(each: list[StoodOn]) -> None:
    assert needs_from_text(needs_to_text(each)) == tuple(sorted(each))
    assert bool(needs_to_text(each)) == bool(each)


@pytest.mark.parametrize("text", ["x", "1", "[1]", "[[1]]", '[["a", "b", 1, "c", "d"]]', "null"])
def test_text_that_is_no_list_of_needs_is_refused(text: str) -> None:
    with pytest.raises((TypeError, ValueError)):
        needs_from_text(text)


def test_launcher_needs_lists_every_need_and_its_output_folder() -> None:
    assert needs_variable(["b", "a"], {"a": "/x y"}) == {
        "LAUNCHER_NEEDS": '[{"job": "a", "output_dir": "/x y"}, {"job": "b", "output_dir": null}]'
    }
    assert needs_variable([], {}) == {}


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of Linux")
def test_a_list_of_needs_too_long_for_a_variable_is_left_out() -> None:
    """The longest list that is kept can be given: a longer string makes execve fail with E2BIG."""
    room = len(needs_variable(["a"], {"a": ""})["LAUNCHER_NEEDS"])
    longest = "x" * (128 * 1024 - len("LAUNCHER_NEEDS=\0") - room)
    variable = needs_variable(["a"], {"a": longest})
    subprocess.run(["true"], env=variable, check=True)
    assert needs_variable(["a"], {"a": longest + "x"}) == {}
    with pytest.raises(OSError, match="too long"):
        subprocess.run(["true"], env={"LAUNCHER_NEEDS": variable["LAUNCHER_NEEDS"] + "x"}, check=True)


A1, A2 = combine({"a": "11"}), combine({"a": "22"})
BOTH1, BOTH2 = combine({"a": "11", "b": "33"}), combine({"b": "44", "a": "11"})


def test_no_globs_have_no_digest():
    assert combine({}) == ""


def test_the_order_of_globs_does_not_change_the_digest():
    assert combine({"a": "1", "b": "2"}) == combine({"b": "2", "a": "1"})


@pytest.mark.parametrize(("before", "after", "globs", "changed"), [
    (A1, A2, ["a"], ["a"]), (BOTH1, BOTH2, ["b", "a", "b"], ["b"]), (A1, A1, ["a"], []),
    (A1, BOTH1, ["a", "b"], []), (BOTH2, A1, ["a"], []), ("", A1, ["a"], []), (A1, "", ["a"], []),
    ("tr2:whatever", A1, ["a"], []),
])  # fmt: skip
def test_a_glob_whose_files_changed_is_named_and_none_that_one_side_does_not_know(
    before, after, globs, changed
):
    assert changed_globs(before, after, globs) == changed


def test_globs_added_to_rerun_on_are_watched_from_now_on_and_kept_ones_as_before():
    assert adopted("", A1) == A1
    assert adopted(A1, combine({"a": "22", "b": "33"})) == BOTH1
    assert adopted(BOTH1, A2) == A1
    assert adopted(A1, "") == ""
