"""examples/pipeline on Slurm: the same tests, under its target `slurm`."""

import pytest

from tests.scenarios.test_pipeline import (  # noqa: F401
    Pipeline,
    test_a_crashed_training_continues_from_its_checkpoint,
    test_gc_removes_the_output_folders_that_no_job_needs,
    test_the_jobs_of_the_pipeline_run_in_order_and_only_once,
)


@pytest.fixture
def pipeline(scenario):
    return Pipeline(scenario, "--target", "slurm")
