"""The import path of the finder of components in TorchX, for programs written for it."""

from launcher.components.component import (
    Component as Component,
    ComponentNotFoundException as ComponentNotFoundException,
    ComponentValidationException as ComponentValidationException,
)
from launcher.components.finder import (
    ComponentsFinder as ComponentsFinder,
    CustomComponentsFinder as CustomComponentsFinder,
    ModuleComponentsFinder as ModuleComponentsFinder,
    get_builtin_source as get_builtin_source,
    get_component as get_component,
    get_components as get_components,
    module_relname as module_relname,
)

_Component = Component
