"""`rerun_on`: finished work runs again after changes of files, or at every apply."""

import pytest

FILES = 'lifecycle: {rerun_on: [{files: ["data/*.csv"]}]}'
EVERY = "lifecycle: {rerun_on: [every_apply]}"


def test_files_are_compared_from_the_first_apply_that_lists_them(scenario):
    data = scenario.write("data/a.csv", "1")
    scenario.run_to_end(scenario.job("true"))
    file = scenario.job("true", top=FILES)
    scenario.apply(file)
    assert scenario.actions(file) == {"job": "keep"}
    data.write_text("2")
    assert scenario.actions(file) == {"job": "rerun"}
    scenario.run_to_end(file)
    assert scenario.actions(file) == {"job": "keep"}
    first, second = scenario.attempts()
    assert first.digest == second.digest


def test_every_apply_runs_finished_work_again(scenario):
    """`every_apply` is the one exception to "a plan after an apply is empty"."""
    file = scenario.job("true", top=EVERY)
    scenario.run_to_end(file)
    assert scenario.actions(file) == {"job": "rerun"}
    scenario.run_to_end(file)
    assert [attempt.action for attempt in scenario.attempts()] == ["create", "rerun"]


@pytest.mark.slow
def test_failures_of_a_triggered_job_are_counted_from_its_last_success(scenario):
    """The job has three tries after each success, not three in all."""
    script = "test -e works || { echo >>tries; exit 1; }"
    policy = "lifecycle: {rerun_on: [every_apply], on_failed: rerun, max_attempts: 2}"
    file = scenario.job(script, top=policy)
    works = scenario.write("works", "")
    scenario.run_to_end(file)
    scenario.run_to_end(file)
    works.unlink()
    scenario.run_to_end(file, code=5)
    assert scenario.actions(file) == {"job": "rerun"}
    scenario.run_to_end(file, code=5)
    assert scenario.actions(file) == {"job": "hold"}
