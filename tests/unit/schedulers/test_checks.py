"""A value that a scheduler does not support is refused, and a default value never is."""

from typing import Any

import pytest

from launcher.schedulers.checks import check_supported, unsupported
from launcher.specs import AppDef, Role


@pytest.mark.parametrize("supports", [None, (), {"service"}])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"retry_delay": 0, "service": False, "ready": None, "depends_on": {}},
        {"retry_delay": 0.0, "service": None, "depends_on": None},
    ],
)
def test_a_scheduler_that_declares_nothing_takes_default_values(supports: Any, fields: Any) -> None:
    app = AppDef("a", [Role("main", "", entrypoint="true", **fields)])
    check_supported(app, supports, "mine")


@pytest.mark.parametrize("supports", [None, ()])
def test_a_value_that_a_scheduler_does_not_support_is_refused(supports: Any) -> None:
    app = AppDef("a", [Role("main", "", entrypoint="true", retry_delay=1)])
    assert [problem.path[-1] for problem in unsupported(app, supports, "mine")] == ["retry_delay"]
