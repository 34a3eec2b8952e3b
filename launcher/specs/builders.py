"""The import path of component calls and mount texts in TorchX, for programs written for it."""

from __future__ import annotations

from launcher.components.call import (
    ComponentArgs,
    component_args_from_str,
    materialize_appdef,
    parse_args,
)
from launcher.specs.jobkey import make_app_handle
from launcher.specs.mounts import parse_mounts

__all__ = [
    "ComponentArgs",
    "component_args_from_str",
    "make_app_handle",
    "materialize_appdef",
    "parse_args",
    "parse_mounts",
]
