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
        ALL as ALL,
        MISSING as MISSING,
        NONE as NONE,
        NULL_RESOURCE as NULL_RESOURCE,
        AppDef as AppDef,
        AppDryRunInfo as AppDryRunInfo,
        CfgVal as CfgVal,
        GiB as GiB,
        Probe as Probe,
        Resource as Resource,
        RetryPolicy as RetryPolicy,
        Role as Role,
    )
    from launcher.specs.attempt import (
        ENDED_STATES as ENDED_STATES,
        LIVE_STATES as LIVE_STATES,
        PENDING_STATES as PENDING_STATES,
        Attempt as Attempt,
        AttemptState as AttemptState,
    )
    from launcher.specs.binding import (
        BoundLaunch as BoundLaunch,
        bind as bind,
        bind_cfg as bind_cfg,
        bind_launch as bind_launch,
        bind_workspace as bind_workspace,
    )
    from launcher.specs.builders import materialize_appdef as materialize_appdef
    from launcher.specs.canonical import (
        app_from_document as app_from_document,
        digest as digest,
        document as document,
        renormalise as renormalise,
    )
    from launcher.specs.check import Problem as Problem, check_app as check_app
    from launcher.specs.jobkey import (
        DEFAULT_PROJECT as DEFAULT_PROJECT,
        DEFAULT_TARGET as DEFAULT_TARGET,
        AppHandle as AppHandle,
        JobKey as JobKey,
        MalformedAppHandleException as MalformedAppHandleException,
        ParsedAppHandle as ParsedAppHandle,
        UnknownAppException as UnknownAppException,
        UnknownSchedulerException as UnknownSchedulerException,
        attempt_id as attempt_id,
        make_app_handle as make_app_handle,
        parse_app_handle as parse_app_handle,
    )
    from launcher.specs.launch import (
        Launch as Launch,
        Lifecycle as Lifecycle,
        OnChange as OnChange,
        OnEnd as OnEnd,
        ProjectRef as ProjectRef,
        Trigger as Trigger,
        WorkspaceRef as WorkspaceRef,
    )
    from launcher.specs.macros import (
        RUN_MACROS as RUN_MACROS,
        SYMBOLIC_APP_ID as SYMBOLIC_APP_ID,
        find_macros as find_macros,
        macros as macros,
        substitute as substitute,
        substitute_partial as substitute_partial,
    )
    from launcher.specs.mounts import (
        BindMount as BindMount,
        DeviceMount as DeviceMount,
        MountType as MountType,
        VolumeMount as VolumeMount,
        parse_mounts as parse_mounts,
    )
    from launcher.specs.named_resources_aws import (
        AWS_NAMED_RESOURCES as AWS_NAMED_RESOURCES,
        instance_type_from_resource as instance_type_from_resource,
    )
    from launcher.specs.named_resources_generic import GENERIC_NAMED_RESOURCES as GENERIC_NAMED_RESOURCES
    from launcher.specs.resources import (
        UnknownResourceException as UnknownResourceException,
        get_named_resources as get_named_resources,
        named_resources as named_resources,
        resource as resource,
    )
    from launcher.specs.runopts import (
        InvalidRunConfigException as InvalidRunConfigException,
        get_type_name as get_type_name,
        runopt as runopt,
        runopts as runopts,
    )
    from launcher.specs.secret import MalformedSecretException as MalformedSecretException, Secret as Secret
    from launcher.specs.status import (
        AppState as AppState,
        AppStatus as AppStatus,
        AppStatusError as AppStatusError,
        ReplicaState as ReplicaState,
        ReplicaStatus as ReplicaStatus,
        RoleStatus as RoleStatus,
        is_started as is_started,
        is_terminal as is_terminal,
        roll_up as roll_up,
    )

_load, __dir__, __all__ = hand_on(
    __name__,
    {
        "app": (
            "ALL MISSING NONE NULL_RESOURCE AppDef AppDryRunInfo CfgVal GiB Probe Resource RetryPolicy Role"
        ),
        "attempt": "ENDED_STATES LIVE_STATES PENDING_STATES Attempt AttemptState",
        "binding": "BoundLaunch bind bind_cfg bind_launch bind_workspace",
        "builders": "materialize_appdef",
        "canonical": "app_from_document digest document renormalise",
        "check": "Problem check_app",
        "jobkey": (
            "DEFAULT_PROJECT DEFAULT_TARGET AppHandle JobKey MalformedAppHandleException ParsedAppHandle "
            "UnknownAppException UnknownSchedulerException attempt_id make_app_handle parse_app_handle"
        ),
        "launch": "Launch Lifecycle OnChange OnEnd ProjectRef Trigger WorkspaceRef",
        "macros": "RUN_MACROS SYMBOLIC_APP_ID find_macros macros substitute substitute_partial",
        "mounts": "BindMount DeviceMount MountType VolumeMount parse_mounts",
        "named_resources_aws": "AWS_NAMED_RESOURCES instance_type_from_resource",
        "named_resources_generic": "GENERIC_NAMED_RESOURCES",
        "resources": "UnknownResourceException get_named_resources named_resources resource",
        "runopts": "InvalidRunConfigException get_type_name runopt runopts",
        "secret": "MalformedSecretException Secret",
        "status": (
            "AppState AppStatus AppStatusError ReplicaState ReplicaStatus RoleStatus is_started is_terminal "
            "roll_up"
        ),
    },
)


class _Package(type(sys)):  # type: ignore[misc]
    """`launcher.specs.macros` and `.runopts` are classes of public API and the files that define them.

    Importing such a file would put the module in the place of the class; the class stays.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in __all__ and isinstance(value, type(sys))):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> object:
    value = globals()[name] = _load(name)
    return value
