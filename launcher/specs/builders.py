"""The import path under which component calls and mount texts are known; they live in launcher.components.

For programs written for TorchX; launcher itself does not import it.
"""

from __future__ import annotations

from launcher.components.call import (
    ComponentArgs,
    component_args_from_str,
    materialize_appdef,
    parse_args,
)
from launcher.specs.handle import make_app_handle
from launcher.specs.mounts import parse_mounts

__all__ = [
    "ComponentArgs",
    "component_args_from_str",
    "make_app_handle",
    "materialize_appdef",
    "parse_args",
    "parse_mounts",
]
