"""Rules of roles: whether an app has an order, and which roles start after another has succeeded."""

import pytest

from launcher.holding.replica import has_order, made_by_others


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
def test_roles_have_an_order_when_one_of_them_has_a_rule(rule, found):
    assert has_order({"client": rule, "other": {}}) is found
    assert has_order({"other": {}, "client": rule}) is found


def test_made_by_others_returns_the_roles_that_start_after_another_has_succeeded():
    rules = {
        "client": {"depends_on": {"server": "ready"}},
        "server": {"depends_on": {"data": "succeeded"}},
        "beside": {"depends_on": {"data": "started"}},
        "data": {},
    }
    assert made_by_others(rules) == {"server", "client"}
