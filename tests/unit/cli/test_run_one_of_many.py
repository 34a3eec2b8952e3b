"""`launcher run` of a file with a matrix: one job of it, by name."""

import pytest


@pytest.fixture
def file(scenario):
    return scenario.job("echo this is $<matrix.n>", name="many", top="matrix: {n: [1, 2]}")


def test_a_job_is_chosen_by_its_name(scenario, file):
    assert scenario.launcher("run", file, "--job", "many-2").out.splitlines()[-1] == "this is 2"


def test_which_one_has_to_be_reported(scenario, file):
    printed = scenario.launcher("run", file, code=64).err
    assert "has 2 jobs" in printed
    assert "--job: many-1, many-2" in printed


def test_a_misspelt_one_is_answered_with_the_nearest(scenario, file):
    assert "did you mean `many-2`?" in scenario.launcher("run", file, "--job", "many-m2", code=64).err
