"""A component that was found, and the errors of looking for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from launcher.components.failure import NOT_THEIRS, reason
from launcher.components.linter import LinterMessage
from launcher.components.output import stdout_to_stderr
from launcher.components.signature import Parameters, parameters_of
from launcher.errors import LauncherError, UsageError


class ComponentNotFoundException(UsageError):
    """There is no component of that name."""


class ComponentValidationException(LauncherError):
    """A function cannot be a component; the message says why, a line for each reason."""


class Component:
    """A component that was found: `name`, `description`, `fn_name`, `validation_errors`, and `fn` itself.

    `fn` is loaded on first access; that runs the code of its module.
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
        """The function. Raises ComponentNotFoundException when its module cannot be loaded.

        The output of the module goes to stderr.
        """
        if self._fn is None:
            try:
                with stdout_to_stderr():
                    self._fn = self._load()
            except NOT_THEIRS:
                raise
            except BaseException as error:
                why = reason(error, self.path)
                message = f"component `{self.name}` cannot be loaded from {self.path}: {why}"
                raise ComponentNotFoundException(message, hint=_hint(error)) from error
        return self._fn

    @property
    def parameters(self) -> Parameters:
        """Its parameters. Raises ComponentNotFoundException, ComponentSignatureException."""
        return parameters_of(self.fn, self.name)

    def __repr__(self) -> str:
        return f"Component({self.name!r}, {self.path!r})"


def _hint(error: BaseException) -> str | None:
    if isinstance(error, ImportError) and "relative import" in str(error):
        return "a component file is no part of a package: import what stands beside it by its name alone"
    return None
