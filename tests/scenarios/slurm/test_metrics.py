"""`launcher metrics` of apps on a cluster: the same test."""

from tests.scenarios.test_metrics import (  # noqa: F401
    test_an_app_is_running_and_then_has_ended_with_its_exit_code,
)
