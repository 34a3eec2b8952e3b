"""Editions and needs: how they are written, and what an attempt of an older version had."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.specs.attempt import Attempt, StoodOn, needs_from_text, needs_to_text
from launcher.specs.jobkey import JobKey
from launcher.specs.outputs import needs_variable

ATTEMPT = Attempt(
    key=JobKey("p", "default", "train"), number=7, app_id="train-7-x", scheduler="s", digest="", document={}
)
stood_on = st.builds(StoodOn, st.text(), st.integers(1), st.integers(1), st.text(), st.text())


@given(st.lists(stood_on, max_size=4))
def test_needs_come_back_sorted_from_their_text(each: list[StoodOn]) -> None:
    assert needs_from_text(needs_to_text(each)) == tuple(sorted(each))
    assert bool(needs_to_text(each)) == bool(each)


@pytest.mark.parametrize("text", ["x", "1", "[1]", "[[1]]", '[["a", "b", 1, "c", "d"]]', "null"])
def test_text_that_is_no_list_of_needs_is_refused(text: str) -> None:
    with pytest.raises((TypeError, ValueError)):
        needs_from_text(text)


def test_an_attempt_is_its_own_edition_unless_it_repeats_another() -> None:
    assert ATTEMPT.edition == 7
    assert replace(ATTEMPT, edition=3).edition == 3


def test_an_attempt_comes_back_from_json_with_edition_and_needs() -> None:
    made = replace(ATTEMPT, edition=3, needs=(StoodOn("prepare", 4, 2, "prepare-4-x", "local_cwd"),))
    assert Attempt.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_the_record_of_an_older_version_has_its_own_edition_and_no_needs() -> None:
    old = {name: value for name, value in ATTEMPT.to_json().items() if name not in ("edition", "needs")}
    assert Attempt.from_json(old) == ATTEMPT


def test_the_variable_lists_every_need_and_its_folder() -> None:
    assert needs_variable(["b", "a"], {"a": "/x y"}) == {
        "LAUNCHER_NEEDS": '[{"job": "a", "output_dir": "/x y"}, {"job": "b", "output_dir": null}]'
    }
    assert needs_variable([], {}) == {}


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of Linux")
def test_a_list_that_no_process_could_be_given_is_left_out() -> None:
    """The longest one can be given: a longer string makes execve fail with E2BIG."""
    room = len(needs_variable(["a"], {"a": ""})["LAUNCHER_NEEDS"])
    longest = "x" * (128 * 1024 - len("LAUNCHER_NEEDS=\0") - room)
    variable = needs_variable(["a"], {"a": longest})
    subprocess.run(["true"], env=variable, check=True)
    assert needs_variable(["a"], {"a": longest + "x"}) == {}
    with pytest.raises(OSError, match="too long"):
        subprocess.run(["true"], env={"LAUNCHER_NEEDS": variable["LAUNCHER_NEEDS"] + "x"}, check=True)
