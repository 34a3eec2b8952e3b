"""Tests of other engines that run alike on a cluster: output, metrics, top, failures, examples/pipeline."""

import pytest

from tests.scenarios.test_first_failures import (  # noqa: F401
    image,
    test_a_failed_job_is_explained_with_its_last_lines,
    test_a_job_that_waits_for_ever_names_the_jobs_that_it_waits_for,
)
from tests.scenarios.test_grep import (  # noqa: F401
    test_gc_can_remove_logs_and_keep_records,
    test_grep_finds_the_lines_of_all_attempts_the_newest_first,
    test_grep_searches_one_stream_and_shows_lines_of_context,
    test_logs_shows_several_attempts_below_headings,
    two,
)
from tests.scenarios.test_metrics import test_an_app_is_running_and_then_has_ended_with_its_exit_code  # noqa: F401
from tests.scenarios.test_pipeline import (  # noqa: F401
    Pipeline,
    test_a_crashed_training_continues_from_its_checkpoint,
    test_gc_removes_the_output_folders_that_no_job_needs,
    test_the_jobs_of_the_pipeline_run_in_order_and_only_once,
)
from tests.scenarios.test_top import test_top_cancels_a_job_only_after_the_answer_yes  # noqa: F401

pytestmark = pytest.mark.engine


@pytest.fixture
def pipeline(scenario):
    return Pipeline(scenario, "--target", "slurm")
