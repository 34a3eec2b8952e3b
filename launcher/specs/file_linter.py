"""The import path of the validator of components in TorchX, for programs written for it."""

from launcher.components.linter import (
    ArgTypeValidator as ArgTypeValidator,
    ComponentFnVisitor as ComponentFnVisitor,
    ComponentFunctionValidator as ComponentFunctionValidator,
    LinterMessage as LinterMessage,
    ReturnTypeValidator as ReturnTypeValidator,
    get_validators as get_validators,
    read_conf_file as read_conf_file,
    validate as validate,
)
from launcher.components.signature import get_fn_docstring as get_fn_docstring
