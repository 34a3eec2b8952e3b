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
        ComponentArgs as ComponentArgs,
        ComponentArgumentException as ComponentArgumentException,
        ComponentResultException as ComponentResultException,
        component_args_from_str as component_args_from_str,
        materialize_appdef as materialize_appdef,
        parse_args as parse_args,
    )
    from launcher.components.component import (
        Component as Component,
        ComponentNotFoundException as ComponentNotFoundException,
        ComponentValidationException as ComponentValidationException,
    )
    from launcher.components.finder import (
        CustomComponentsFinder as CustomComponentsFinder,
        ModuleComponentsFinder as ModuleComponentsFinder,
        get_builtin_source as get_builtin_source,
        get_component as get_component,
        get_components as get_components,
        module_relname as module_relname,
    )
    from launcher.components.linter import (
        ArgTypeValidator as ArgTypeValidator,
        ComponentFnVisitor as ComponentFnVisitor,
        ComponentFunctionValidator as ComponentFunctionValidator,
        DocstringValidator as DocstringValidator,
        LinterMessage as LinterMessage,
        ReturnTypeValidator as ReturnTypeValidator,
        get_validators as get_validators,
        read_conf_file as read_conf_file,
        validate as validate,
    )
    from launcher.components.signature import (
        component_help as component_help,
        get_fn_docstring as get_fn_docstring,
    )
    from launcher.components.structured_arg import (
        StructuredJArgument as StructuredJArgument,
        StructuredNameArgument as StructuredNameArgument,
    )

__getattr__, __dir__, __all__ = hand_on(
    __name__,
    {
        "call": (
            "ComponentArgs ComponentArgumentException ComponentResultException component_args_from_str "
            "materialize_appdef parse_args"
        ),
        "component": "Component ComponentNotFoundException ComponentValidationException",
        "finder": (
            "CustomComponentsFinder ModuleComponentsFinder get_builtin_source get_component get_components "
            "module_relname"
        ),
        "linter": (
            "ArgTypeValidator ComponentFnVisitor ComponentFunctionValidator DocstringValidator LinterMessage "
            "ReturnTypeValidator get_validators read_conf_file validate"
        ),
        "signature": "component_help get_fn_docstring",
        "structured_arg": "StructuredJArgument StructuredNameArgument",
    },
)
