"""`launcher run` of a file with a matrix: one job of it, by name."""

import pytest


@pytest.fixture
def file(scenario):
    return scenario.job("echo this is $<matrix.n>", name="many", top="matrix: {n: [1, 2]}")


def test_a_job_is_chosen_by_its_name(scenario, file):
    assert scenario.launcher("run", file, "--job", "many-2").out.splitlines()[-1] == "this is 2"


def test_run_without_a_job_name_is_refused_with_the_names_of_the_jobs(scenario, file):
    printed = scenario.launcher("run", file, code=64).err
    assert "has 2 jobs" in printed
    assert "--job: many-1, many-2" in printed


def test_a_misspelt_job_name_is_refused_with_the_nearest(scenario, file):
    assert "did you mean `many-2`?" in scenario.launcher("run", file, "--job", "many-m2", code=64).err
