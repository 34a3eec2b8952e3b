"""Settings of calls to components in the environment."""

import pytest

from launcher.components.calls import TIMEOUT, TIMEOUT_S, timeout_s
from launcher.errors import UsageError


@pytest.mark.parametrize(
    ("output", "seconds"), [("", TIMEOUT_S), ("60", 60), ("0.5", 0.5), ("2m", 120), ("1.5h", 5400)]
)
def test_the_time_limit_of_component_calls_is_a_duration(output, seconds):
    assert timeout_s({TIMEOUT: output}) == seconds


@pytest.mark.parametrize("output", ["0", "0s", "-1", "soon", "inf", "nan", "2d", "9" * 20 + "w", "9" * 400])
def test_a_value_that_is_no_duration_is_refused_with_examples(output):
    with pytest.raises(UsageError) as caught:
        timeout_s({TIMEOUT: output})
    assert "such as 90 (seconds), 10s" in (caught.value.hint or "")
