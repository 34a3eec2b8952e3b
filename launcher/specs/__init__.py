"""The specs of apps and jobs, and their statuses: plain data and pure functions on it, no I/O.

Every public name is imported from here, and loaded on first use, so that `import launcher.specs` costs
nothing: `from launcher.specs import AppDef, Role, macros, runopts`.
"""

from __future__ import annotations

import sys

from launcher import hand_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.specs.app import (
        ALL,
        MISSING,
        NONE,
        NULL_RESOURCE,
        AppDef,
        AppDryRunInfo,
        CfgVal,
        GiB,
        Probe,
        Resource,
        RetryPolicy,
        Role,
    )
    from launcher.specs.attempt import ENDED_STATES, LIVE_STATES, PENDING_STATES, Attempt, AttemptState
    from launcher.specs.binding import BoundLaunch, bind, bind_cfg, bind_launch, bind_workspace
    from launcher.specs.builders import materialize_appdef
    from launcher.specs.canonical import app_from_document, digest, document, renormalise
    from launcher.specs.check import Problem, check_app
    from launcher.specs.jobkey import (
        DEFAULT_PROJECT,
        DEFAULT_TARGET,
        AppHandle,
        JobKey,
        MalformedAppHandleException,
        ParsedAppHandle,
        UnknownAppException,
        UnknownSchedulerException,
        attempt_id,
        make_app_handle,
        parse_app_handle,
    )
    from launcher.specs.launch import Launch, Lifecycle, OnChange, OnEnd, ProjectRef, Trigger, WorkspaceRef
    from launcher.specs.macros import (
        RUN_MACROS,
        SYMBOLIC_APP_ID,
        find_macros,
        macros,
        substitute,
        substitute_partial,
    )
    from launcher.specs.mounts import BindMount, DeviceMount, MountType, VolumeMount, parse_mounts
    from launcher.specs.named_resources_aws import AWS_NAMED_RESOURCES, instance_type_from_resource
    from launcher.specs.named_resources_generic import GENERIC_NAMED_RESOURCES
    from launcher.specs.resources import (
        UnknownResourceException,
        get_named_resources,
        named_resources,
        resource,
    )
    from launcher.specs.runopts import InvalidRunConfigException, get_type_name, runopt, runopts
    from launcher.specs.secret import MalformedSecretException, Secret
    from launcher.specs.status import (
        AppState,
        AppStatus,
        AppStatusError,
        ReplicaState,
        ReplicaStatus,
        RoleStatus,
        is_started,
        is_terminal,
        roll_up,
    )

__all__ = [
    "ALL",
    "AWS_NAMED_RESOURCES",
    "DEFAULT_PROJECT",
    "DEFAULT_TARGET",
    "ENDED_STATES",
    "GENERIC_NAMED_RESOURCES",
    "LIVE_STATES",
    "MISSING",
    "NONE",
    "NULL_RESOURCE",
    "PENDING_STATES",
    "RUN_MACROS",
    "SYMBOLIC_APP_ID",
    "AppDef",
    "AppDryRunInfo",
    "AppHandle",
    "AppState",
    "AppStatus",
    "AppStatusError",
    "Attempt",
    "AttemptState",
    "BindMount",
    "BoundLaunch",
    "CfgVal",
    "DeviceMount",
    "GiB",
    "InvalidRunConfigException",
    "JobKey",
    "Launch",
    "Lifecycle",
    "MalformedAppHandleException",
    "MalformedSecretException",
    "MountType",
    "OnChange",
    "OnEnd",
    "ParsedAppHandle",
    "Probe",
    "Problem",
    "ProjectRef",
    "ReplicaState",
    "ReplicaStatus",
    "Resource",
    "RetryPolicy",
    "Role",
    "RoleStatus",
    "Secret",
    "Trigger",
    "UnknownAppException",
    "UnknownResourceException",
    "UnknownSchedulerException",
    "VolumeMount",
    "WorkspaceRef",
    "app_from_document",
    "attempt_id",
    "bind",
    "bind_cfg",
    "bind_launch",
    "bind_workspace",
    "check_app",
    "digest",
    "document",
    "find_macros",
    "get_named_resources",
    "get_type_name",
    "instance_type_from_resource",
    "is_started",
    "is_terminal",
    "macros",
    "make_app_handle",
    "materialize_appdef",
    "named_resources",
    "parse_app_handle",
    "parse_mounts",
    "renormalise",
    "resource",
    "roll_up",
    "runopt",
    "runopts",
    "substitute",
    "substitute_partial",
]

_NAMES_OF = {
    "app": "ALL MISSING NONE NULL_RESOURCE AppDef AppDryRunInfo CfgVal GiB Probe Resource RetryPolicy Role",
    "attempt": "ENDED_STATES LIVE_STATES PENDING_STATES Attempt AttemptState",
    "binding": "BoundLaunch bind bind_cfg bind_launch bind_workspace",
    "builders": "materialize_appdef",
    "canonical": "app_from_document digest document renormalise",
    "check": "Problem check_app",
    "jobkey": "DEFAULT_PROJECT DEFAULT_TARGET AppHandle JobKey MalformedAppHandleException ParsedAppHandle "
    "UnknownAppException UnknownSchedulerException attempt_id make_app_handle parse_app_handle",
    "launch": "Launch Lifecycle OnChange OnEnd ProjectRef Trigger WorkspaceRef",
    "macros": "RUN_MACROS SYMBOLIC_APP_ID find_macros macros substitute substitute_partial",
    "mounts": "BindMount DeviceMount MountType VolumeMount parse_mounts",
    "resources": "UnknownResourceException get_named_resources named_resources resource",
    "named_resources_aws": "AWS_NAMED_RESOURCES instance_type_from_resource",
    "named_resources_generic": "GENERIC_NAMED_RESOURCES",
    "runopts": "InvalidRunConfigException get_type_name runopt runopts",
    "secret": "MalformedSecretException Secret",
    "status": "AppState AppStatus AppStatusError ReplicaState ReplicaStatus RoleStatus "
    "is_started is_terminal roll_up",
}
_HOMES = {name: module for module, names in _NAMES_OF.items() for name in names.split()}


class _Package(type(sys)):  # type: ignore[misc]
    """`launcher.specs.macros` and `.runopts` are classes of public API and the files that define them.

    Importing such a file would put the module in the place of the class; the class stays.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOMES and isinstance(value, type(sys))):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
_load, __dir__ = hand_on(__name__, _HOMES)


def __getattr__(name: str) -> object:
    value = globals()[name] = _load(name)
    return value
