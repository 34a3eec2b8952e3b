"""An AppDef as JSON and back."""

import json

import pytest
from hypothesis import given

from launcher.components.evaluate import app_from_json, app_to_json
from launcher.specs import AppDef, Role
from tests.unit.specs import strategies


@given(strategies.APP)
def test_every_app_comes_back_as_it_was(app: AppDef):
    assert app_from_json(json.loads(json.dumps(app_to_json(app)))) == app


@pytest.mark.parametrize("value", [None, [], {}, "x", {"name": "a", "roles": 1, "metadata": {}}])
def test_a_value_that_is_no_app_is_refused(value: object):
    with pytest.raises((ValueError, TypeError, KeyError)):
        app_from_json(value)


def test_a_role_that_changes_its_request_is_no_data():
    class Mine(Role):
        def pre_proc(self, scheduler, dryrun_info):
            return dryrun_info

    with pytest.raises(TypeError, match=r"`Mine\.pre_proc` changes the request"):
        app_to_json(AppDef("a", [Mine("r", "")]))
