"""examples/pipeline in containers: the same tests, under its target `docker`."""

import pytest

from tests.engines.images import stand_in
from tests.scenarios.test_pipeline import (  # noqa: F401
    Pipeline,
    test_a_changed_input_runs_all_of_them_again_and_a_changed_job_what_follows_it,
    test_a_crashed_training_goes_on_from_its_checkpoint,
    test_gc_removes_the_output_folders_that_no_job_stands_on,
    test_the_jobs_run_in_order_and_not_again,
)


@pytest.fixture
def pipeline(scenario):
    stand_in("python:3.12-slim")
    return Pipeline(scenario, "--target", "docker")
