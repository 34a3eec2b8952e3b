"""Components: functions that return an AppDef, found by name and called with typed arguments.

::

    component = get_component("utils.echo")           # or "path/to/file.py:function"
    app = materialize_appdef(component.fn, ["--msg", "hi"])

The names here are loaded on first use.
"""

from __future__ import annotations

from launcher import hand_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.components.call import (
        ComponentArgs,
        ComponentArgumentException,
        ComponentResultException,
        component_args_from_str,
        materialize_appdef,
        parse_args,
    )
    from launcher.components.component import (
        Component,
        ComponentNotFoundException,
        ComponentValidationException,
    )
    from launcher.components.finder import (
        CustomComponentsFinder,
        ModuleComponentsFinder,
        get_builtin_source,
        get_component,
        get_components,
        module_relname,
    )
    from launcher.components.linter import (
        ArgTypeValidator,
        ComponentFnVisitor,
        ComponentFunctionValidator,
        DocstringValidator,
        LinterMessage,
        ReturnTypeValidator,
        get_validators,
        read_conf_file,
        validate,
    )
    from launcher.components.signature import component_help, get_fn_docstring
    from launcher.components.structured_arg import StructuredJArgument, StructuredNameArgument

_NAMES_OF = {
    "call": "ComponentArgs ComponentArgumentException ComponentResultException component_args_from_str "
    "materialize_appdef parse_args",
    "component": "Component ComponentNotFoundException ComponentValidationException",
    "finder": "CustomComponentsFinder ModuleComponentsFinder get_builtin_source get_component "
    "get_components module_relname",
    "signature": "component_help get_fn_docstring",
    "linter": "ArgTypeValidator ComponentFnVisitor ComponentFunctionValidator DocstringValidator "
    "LinterMessage ReturnTypeValidator get_validators read_conf_file validate",
    "structured_arg": "StructuredJArgument StructuredNameArgument",
}
_HOMES = {name: module for module, names in _NAMES_OF.items() for name in names.split()}

__all__ = [
    "ArgTypeValidator",
    "Component",
    "ComponentArgs",
    "ComponentArgumentException",
    "ComponentFnVisitor",
    "ComponentFunctionValidator",
    "ComponentNotFoundException",
    "ComponentResultException",
    "ComponentValidationException",
    "CustomComponentsFinder",
    "DocstringValidator",
    "LinterMessage",
    "ModuleComponentsFinder",
    "ReturnTypeValidator",
    "StructuredJArgument",
    "StructuredNameArgument",
    "component_args_from_str",
    "component_help",
    "get_builtin_source",
    "get_component",
    "get_components",
    "get_fn_docstring",
    "get_validators",
    "materialize_appdef",
    "module_relname",
    "parse_args",
    "read_conf_file",
    "validate",
]

__getattr__, __dir__ = hand_on(__name__, _HOMES)
