"""Rules of roles: whether an app has an order, and which roles another one may make."""

import pytest

from launcher.holding.order import has_order, made_by_others


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ({}, False),
        ({"retry_delay": 3}, False),
        ({"service": True}, True),
        ({"ready": {"port": 80}}, True),
        ({"depends_on": {"server": "ready"}}, True),
    ],
)
def test_whether_an_app_has_an_order(rule, found):
    assert has_order({"client": rule, "other": {}}) is found
    assert has_order({"other": {}, "client": rule}) is found


def test_the_roles_that_another_one_may_make():
    rules = {
        "client": {"depends_on": {"server": "ready"}},
        "server": {"depends_on": {"data": "succeeded"}},
        "beside": {"depends_on": {"data": "started"}},
        "data": {},
    }
    assert made_by_others(rules) == {"server", "client"}
