"""A component that was found: load it, call it, and describe the errors of the user's code in it."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from typing import Any

from launcher.components.call import ComponentArgs, call
from launcher.components.linter import LinterMessage
from launcher.components.output import stdout_to_stderr
from launcher.components.signature import Parameters, parameters_of
from launcher.components.source import PACKAGE
from launcher.errors import Interruption, LauncherError, UsageError
from launcher.specs.app import AppDef

NOT_THEIRS = (KeyboardInterrupt, GeneratorExit, Interruption)
"""Exceptions that pass through a user's code and are not its errors."""


_RELATIVE = "a component file is no part of a package: import what stands beside it by its name alone"


class ComponentNotFoundException(UsageError):
    """There is no component of that name."""


class ComponentValidationException(LauncherError):
    """A function cannot be a component; the message says why, a line for each reason."""


class ComponentFailedException(LauncherError):
    """A component raised instead of returning an AppDef; the message says what and where."""


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
                message = f"component `{self.name}` cannot be loaded from {self.path}: {self._why(error)}"
                is_relative = isinstance(error, ImportError) and "relative import" in str(error)
                hint = (
                    "a component file is no part of a package: import what stands beside it by its name alone"
                )
                raise ComponentNotFoundException(message, hint=hint if is_relative else None) from error
        return self._fn

    @property
    def parameters(self) -> Parameters:
        """Its parameters. Raises ComponentNotFoundException, ComponentSignatureException."""
        return parameters_of(self.fn, self.name)

    def build(self, arguments: ComponentArgs) -> AppDef:
        """The app that it makes. Its output goes to stderr: stdout may be a document.

        Raises only LauncherError, and the exceptions of signals.
        """
        function = self.fn
        try:
            with stdout_to_stderr():
                return call(function, arguments, self.name)
        except (LauncherError, *NOT_THEIRS):
            raise
        except BaseException as error:
            message = f"component `{self.name}` failed: {self._why(error)}"
            raise ComponentFailedException(message) from error

    def _why(self, error: BaseException) -> str:
        """The error and its line in the user's file: `KeyError: 'x', line 3 of …/train.py`.

        A ValueError mostly describes wrong arguments completely, so its class is left out. Built-in
        components have no line, as users do not edit them.
        """
        name = type(error).__name__
        if isinstance(error, SyntaxError) and error.filename:
            return f"{name}: {error.msg}, line {error.lineno} of {error.filename}"
        says_it_all = isinstance(error, ValueError) and str(error)
        said = str(error) if says_it_all else f"{name}: {error}"
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == self.path]
        is_ours = self.path.startswith(PACKAGE + os.sep)
        return f"{said}, line {lines[-1]} of {self.path}" if lines and not is_ours else said

    def __repr__(self) -> str:
        return f"Component({self.name!r}, {self.path!r})"
