"""The parameters of a component, with their real types, defaults and descriptions."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from launcher.components.docstring import parse_docstring
from launcher.errors import LauncherError

EMPTY: Any = inspect.Parameter.empty
"""No default."""


class ComponentSignatureException(LauncherError, TypeError):
    """A function has a parameter that no component can have: `**kwargs`, or one of an unknown type."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter.

    Attributes:
        type: as it is at run time; of `*args: int` it is int, EMPTY when there is no annotation.
        default: EMPTY when it must be given; of `*args` it is ().
        is_rest: whether it is `*args`.
    """

    name: str
    type: Any
    default: Any
    text: str
    is_keyword_only: bool = False
    is_rest: bool = False

    @property
    def is_required(self) -> bool:
        return self.default is EMPTY


Parameters = dict[str, Parameter]


def parameters_of(function: Callable[..., object], component: str | None = None) -> Parameters:
    """The parameters by name, in their order. Annotations written as text are looked up.

    Args:
        component: its name in messages; the function's name by default.

    Raises ComponentSignatureException.
    """
    called = component or str(getattr(function, "__name__", "component"))
    _, texts = parse_docstring(function.__doc__)
    found: Parameters = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            message = f"component `{called}` takes `**{name}`, and nothing can be passed to it"
            hint = "declare each argument; a decorator keeps those of its function with functools.wraps"
            raise ComponentSignatureException(message, hint=hint)
        rest = parameter.kind is parameter.VAR_POSITIONAL
        found[name] = Parameter(
            name,
            _type(function, called, name, parameter.annotation),
            () if rest else parameter.default,
            texts.get(name, ""),
            is_keyword_only=parameter.kind is parameter.KEYWORD_ONLY,
            is_rest=rest,
        )
    return found


def _type(function: Callable[..., object], called: str, name: str, annotation: Any) -> Any:
    if annotation is EMPTY:
        return EMPTY
    names = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        # One by one: an unresolvable annotation does not affect the others.
        return typing.get_type_hints(SimpleNamespace(__annotations__={name: annotation}), names)[name]
    except Exception as error:
        raise ComponentSignatureException(
            f"the type of `{name}` in component `{called}` cannot be found: {error}",
            hint="import it at the top of the file, not under TYPE_CHECKING",
        ) from error
