"""The import path of the specs in TorchX, for programs written for it."""

from launcher.specs.app import (
    ALL as ALL,
    MISSING as MISSING,
    NONE as NONE,
    NULL_RESOURCE as NULL_RESOURCE,
    AppDef as AppDef,
    AppDryRunInfo as AppDryRunInfo,
    CfgVal as CfgVal,
    Resource as Resource,
    RetryPolicy as RetryPolicy,
    Role as Role,
)
from launcher.specs.jobkey import (
    AppHandle as AppHandle,
    MalformedAppHandleException as MalformedAppHandleException,
    ParsedAppHandle as ParsedAppHandle,
    UnknownAppException as UnknownAppException,
    UnknownSchedulerException as UnknownSchedulerException,
    make_app_handle as make_app_handle,
    parse_app_handle as parse_app_handle,
)
from launcher.specs.macros import macros as macros
from launcher.specs.mounts import (
    BindMount as BindMount,
    DeviceMount as DeviceMount,
    MountType as MountType,
    VolumeMount as VolumeMount,
)
from launcher.specs.runopts import (
    InvalidRunConfigException as InvalidRunConfigException,
    get_type_name as get_type_name,
    runopt as runopt,
    runopts as runopts,
)
from launcher.specs.status import (
    AppState as AppState,
    AppStatus as AppStatus,
    AppStatusError as AppStatusError,
    ReplicaState as ReplicaState,
    ReplicaStatus as ReplicaStatus,
    RoleStatus as RoleStatus,
    is_started as is_started,
    is_terminal as is_terminal,
)
