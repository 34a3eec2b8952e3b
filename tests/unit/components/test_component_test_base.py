"""The base for tests of component files, used as its users do."""

import unittest

from launcher.components import dist, utils
from launcher.components.component_test_base import ComponentTestCase
from launcher.specs import AppState


class _Tests(ComponentTestCase):
    __test__ = False  # run below, not by pytest

    def test_ddp(self):
        self.validate(dist, "ddp")

    def test_echo(self):
        status = self.run_component(utils.echo, ["--msg", "hi"], None, timeout=60)
        assert status.state == AppState.SUCCEEDED

    def test_echo_by_name(self):
        status = self.run_component(utils.echo, {"msg": "hi", "num_replicas": 2}, timeout=60)
        assert [len(role.replicas) for role in status.roles] == [2]

    def test_echo_without_arguments(self):
        assert self.run_component(utils.echo, timeout=60).state == AppState.SUCCEEDED

    def test_helper(self):
        self.validate(dist, "get_role_name")


def outcome(name):
    return _Tests(name).run(unittest.TestResult())


def test_a_valid_component_passes_its_tests(capfd):
    found = [outcome(name) for name in dir(_Tests) if name.startswith(("test_ddp", "test_echo"))]
    assert [one.errors + one.failures for one in found] == [[], [], [], []]


def test_a_function_that_is_no_component_fails_its_test():
    [(_, trace)] = outcome("test_helper").errors
    assert "no function `get_role_name`" in trace
