"""The import path of the specs in TorchX, for programs written for it."""

from __future__ import annotations

from launcher.specs.app import (
    ALL,
    MISSING,
    NONE,
    NULL_RESOURCE,
    AppDef,
    CfgVal,
    Resource,
    RetryPolicy,
    Role,
)
from launcher.specs.appstate import AppState, ReplicaState, is_started, is_terminal
from launcher.specs.dryrun import AppDryRunInfo
from launcher.specs.handle import (
    AppHandle,
    MalformedAppHandleException,
    ParsedAppHandle,
    UnknownAppException,
    UnknownSchedulerException,
    make_app_handle,
    parse_app_handle,
)
from launcher.specs.macros import macros
from launcher.specs.mounts import BindMount, DeviceMount, MountType, VolumeMount
from launcher.specs.runopts import InvalidRunConfigException, get_type_name, runopt, runopts
from launcher.specs.status import AppStatus, AppStatusError, ReplicaStatus, RoleStatus

__all__ = [
    "ALL",
    "MISSING",
    "NONE",
    "NULL_RESOURCE",
    "AppDef",
    "AppDryRunInfo",
    "AppHandle",
    "AppState",
    "AppStatus",
    "AppStatusError",
    "BindMount",
    "CfgVal",
    "DeviceMount",
    "InvalidRunConfigException",
    "MalformedAppHandleException",
    "MountType",
    "ParsedAppHandle",
    "ReplicaState",
    "ReplicaStatus",
    "Resource",
    "RetryPolicy",
    "Role",
    "RoleStatus",
    "UnknownAppException",
    "UnknownSchedulerException",
    "VolumeMount",
    "get_type_name",
    "is_started",
    "is_terminal",
    "macros",
    "make_app_handle",
    "parse_app_handle",
    "runopt",
    "runopts",
]
