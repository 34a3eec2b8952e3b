"""What somebody meant who made a slip of the keyboard, and that nothing far away is offered."""

from __future__ import annotations

import pytest

from launcher.specs.nearest import distance, nearest

NAMES = ["msg", "image", "num_replicas", "utils.echo", "utils.sh", "scheduler", "max_retries"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("mag", "msg"),  # `image` holds all three letters and is another word
        ("imgae", "image"),
        ("num-replica", "num_replicas"),
        ("Scheduler", "scheduler"),
        ("sched", "scheduler"),
        ("echo", "utils.echo"),
        ("utils.ecko", "utils.echo"),
        ("max_retrys", "max_retries"),
        ("ms", "msg"),
        ("command", None),
        ("x", None),
        ("", None),
    ],
)
def test_the_nearest_name_is_the_one_that_was_meant(typed, meant):
    assert nearest(typed, NAMES) == meant


def test_of_two_as_near_the_first_is_taken():
    assert nearest("cat", ["bat", "car"]) == "bat"


@pytest.mark.parametrize(
    ("one", "other", "slips"),
    [("", "", 0), ("abc", "abc", 0), ("", "abc", 3), ("ab", "ba", 1), ("mag", "msg", 1), ("abcd", "acbe", 2)],
)
def test_two_letters_that_changed_places_are_one_slip(one, other, slips):
    assert distance(one, other) == distance(other, one) == slips
