"""The import path of the validator of components in TorchX, for programs written for it."""

from __future__ import annotations

from launcher.components.linter import (
    ArgTypeValidator,
    ComponentFnVisitor,
    ComponentFunctionValidator,
    LinterMessage,
    ReturnTypeValidator,
    get_validators,
    read_conf_file,
    validate,
)
from launcher.components.signature import get_fn_docstring

__all__ = [
    "ArgTypeValidator",
    "ComponentFnVisitor",
    "ComponentFunctionValidator",
    "LinterMessage",
    "ReturnTypeValidator",
    "get_fn_docstring",
    "get_validators",
    "read_conf_file",
    "validate",
]
