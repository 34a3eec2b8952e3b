"""examples/pipeline in containers: the same tests, under its target `docker`."""

import pytest

from tests.engines.images import stand_in
from tests.scenarios.test_pipeline import (  # noqa: F401
    Pipeline,
    test_a_crashed_training_continues_from_its_checkpoint,
    test_gc_removes_the_output_folders_that_no_job_needs,
)


@pytest.fixture
def pipeline(scenario):
    stand_in("python:3.12-slim")
    return Pipeline(scenario, "--target", "docker")
