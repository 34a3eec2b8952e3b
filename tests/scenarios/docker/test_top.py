"""`launcher top` shows containers, and cancels them."""

import pytest

from tests.scenarios.test_top import (  # noqa: F401
    test_top_cancels_a_job_only_after_the_answer_yes,
)

pytestmark = pytest.mark.engine
