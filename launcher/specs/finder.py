"""The import path of the finder of components in TorchX, for programs written for it."""

from __future__ import annotations

from launcher.components.component import (
    Component,
    ComponentNotFoundException,
    ComponentValidationException,
)
from launcher.components.finder import (
    ComponentsFinder,
    CustomComponentsFinder,
    ModuleComponentsFinder,
    get_builtin_source,
    get_component,
    get_components,
    module_relname,
)

_Component = Component

__all__ = [
    "Component",
    "ComponentNotFoundException",
    "ComponentValidationException",
    "ComponentsFinder",
    "CustomComponentsFinder",
    "ModuleComponentsFinder",
    "get_builtin_source",
    "get_component",
    "get_components",
    "module_relname",
]
