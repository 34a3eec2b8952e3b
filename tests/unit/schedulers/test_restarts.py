"""Runs of a replica between its restarts, and the moments of their output."""

import pytest

from launcher.schedulers.restarts import Restart, run_between, within

STARTS = [(0, 10.0), (1, 20.0), (3, 30.0)]  # the second restart was of another replica of its role


def test_a_run_lasts_until_the_next_one_and_the_last_run_has_no_end() -> None:
    first, second = run_between(STARTS, 0), run_between(STARTS, 1)
    assert first == (10.0, pytest.approx(20.0))
    assert second == (20.0, pytest.approx(30.0))
    assert first[1] is not None
    assert first[1] < 20.0
    assert run_between(STARTS, 3) == (30.0, None)


def test_an_unlisted_run_has_no_bounds() -> None:
    assert run_between(STARTS, 2) is None
    assert run_between([], 0) is None


@pytest.mark.parametrize(("times", "since", "until", "found"), [
    ((10.0, 20.0), None, None, (10.0, 20.0)), ((10.0, 20.0), 5.0, 25.0, (10.0, 20.0)),
    ((10.0, 20.0), 12.0, 15.0, (12.0, 15.0)), ((10.0, None), None, None, (10.0, None)),
    ((10.0, None), 12.0, 15.0, (12.0, 15.0)),
])  # fmt: skip
def test_moments_are_cut_to_those_of_a_run(times, since, until, found):
    assert within(times, since, until) == found


def test_a_restart_says_its_pause() -> None:
    made = Restart(role="a", k=1, scope="role", number=1, most=3, delay_s=2.5, cause="exited with 1", at=0)
    assert str(made) == "a/1 exited with 1; restart 1 of 3 in 2.5 s"
