"""The import path of component calls and mount texts in TorchX, for programs written for it."""

from launcher.components.call import (
    ComponentArgs as ComponentArgs,
    component_args_from_str as component_args_from_str,
    materialize_appdef as materialize_appdef,
    parse_args as parse_args,
)
from launcher.specs.jobkey import make_app_handle as make_app_handle
from launcher.specs.mounts import parse_mounts as parse_mounts
