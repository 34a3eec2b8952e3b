"""`launcher top` shows jobs of Slurm, and cancels them."""

import pytest

from tests.scenarios.test_top import (  # noqa: F401
    test_a_job_is_cancelled_when_the_question_is_answered_with_yes_alone,
)

pytestmark = pytest.mark.engine
