"""Tests of other engines that run alike in containers: old output, metrics, examples/pipeline."""

import pytest

from tests.engines.images import stand_in
from tests.scenarios.test_grep import (  # noqa: F401
    test_gc_can_remove_logs_and_keep_records,
    test_grep_finds_the_lines_of_all_attempts_the_newest_first,
    two,
)
from tests.scenarios.test_metrics import test_an_app_is_running_and_then_has_ended_with_its_exit_code  # noqa: F401
from tests.scenarios.test_pipeline import (  # noqa: F401
    Pipeline,
    test_a_crashed_training_continues_from_its_checkpoint,
    test_gc_removes_the_output_folders_that_no_job_needs,
)


@pytest.fixture
def pipeline(scenario):
    stand_in("python:3.12-slim")
    return Pipeline(scenario, "--target", "docker")
