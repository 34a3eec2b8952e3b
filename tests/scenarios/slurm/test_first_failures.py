"""The failures of a first day on a cluster: the same tests."""

import pytest

from tests.scenarios.test_first_failures import (  # noqa: F401
    image,
    test_a_failed_job_is_explained_with_its_last_lines,
    test_a_job_that_waits_for_ever_names_the_jobs_that_it_waits_for,
)

pytestmark = pytest.mark.engine
