"""Clients with several state folders on one engine: one attempt, and every client exits 0 (invariant 12)."""

from tests.races import SLOW, Race


def test_applies_of_one_job_from_six_state_folders_make_one_attempt(scenario):
    """The test takes half a minute: only real clients and a slow engine show the races."""
    assert Race(scenario.folder / "race", scenario.token, SLOW).run() == []
