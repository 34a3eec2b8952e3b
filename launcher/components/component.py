"""A component that was found, and what can keep one from being found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from launcher.components.linter import LinterMessage
from launcher.errors import LauncherError, UsageError


class ComponentNotFoundException(UsageError):
    """No component goes by that name."""


class ComponentValidationException(LauncherError):
    """A function cannot be a component; the message says why, a line for each reason."""


class Component:
    """A component that was found: `name`, `description`, `fn_name`, `validation_errors`, and `fn` itself.

    `fn` is loaded when it is first asked for; that runs the code of its module.
    """

    def __init__(
        self,
        name: str,
        description: str,
        fn_name: str,
        load: Callable[[], Callable[..., Any]],
        validation_errors: list[LinterMessage],
        path: str,
    ) -> None:
        self.name = name
        self.description = description
        self.fn_name = fn_name
        self.validation_errors = validation_errors
        self.path = path
        self._load = load
        self._fn: Callable[..., Any] | None = None

    @property
    def fn(self) -> Callable[..., Any]:
        """The function. Raises ComponentNotFoundException when its module cannot be loaded."""
        if self._fn is None:
            try:
                self._fn = self._load()
            except (Exception, SystemExit) as error:
                why = f"{type(error).__name__}: {error}"
                message = f"component `{self.name}` cannot be loaded from {self.path}: {why}"
                raise ComponentNotFoundException(message) from error
        return self._fn

    def __repr__(self) -> str:
        return f"Component({self.name!r}, {self.path!r})"
