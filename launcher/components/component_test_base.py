"""ComponentTestCase: a base for the tests of component files.

For tests of users: it imports the Runner, so no module of launcher imports it.
"""

from __future__ import annotations

import os
import unittest
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from launcher.components.call import materialize_appdef
from launcher.components.finder import get_component
from launcher.components.linter import PACKAGE
from launcher.runner import get_runner
from launcher.specs.app import AppDef
from launcher.specs.status import AppStatus


class ComponentTestCase(unittest.TestCase):
    """Checks components, and runs them. Tests run in the folder above the built-in components."""

    def setUp(self) -> None:
        """Change to the folder above the built-in components; the end of the test changes back."""
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(PACKAGE)

    def validate(self, module: ModuleType, function_name: str) -> None:
        """Fails unless the function is a component that shows its help. Raises what `get_component` does."""
        component = get_component(f"{os.path.abspath(str(module.__file__))}:{function_name}")
        with self.assertRaises(SystemExit):  # noqa: PT027  # users run it under unittest
            materialize_appdef(component.fn, ["--help"])

    def run_component(
        self,
        component: Callable[..., AppDef],
        args: Mapping[str, Any] | Sequence[str] | None = None,
        scheduler_params: Mapping[str, Any] | None = None,
        scheduler: str = "local_cwd",
        interval: float = 0.1,
        timeout: float = 1,
    ) -> AppStatus | None:
        """Run a component; returns its status when it has ended, or after `timeout` seconds.

        Args:
            args: its arguments by name, as for a call (`component(**args)`), or the words of a command line.
            scheduler_params: keywords for the schedulers, as `get_runner` takes them.
            interval: accepted for compatibility; the status is not polled.
        """
        with get_runner(**(scheduler_params or {})) as runner:
            if args is None or isinstance(args, Mapping):
                app = component(**(args or {}))
            else:
                app = materialize_appdef(component, args)
            handle = runner.run(app, scheduler)
            return runner.wait(handle, interval, timeout_s=timeout)
