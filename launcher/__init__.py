"""launcher: a declarative, job-file driven launcher for work that runs to completion.

The public names are loaded on first use, so that `import launcher` costs nothing:

    launch = launcher.load_job("train.launcher.yaml", vars={"epochs": 5}, target="dev")
    plan = launcher.make_plan([launch])
    result = launcher.apply_plan(plan, wait=True)
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.apply import apply_plan, make_plan
    from launcher.apply.plans import Choices
    from launcher.components.image import IMAGE
    from launcher.errors import (
        AppNotFoundError,
        BlockedError,
        CommandError,
        JobFileError,
        LauncherError,
        LockTimeoutError,
        SchedulerError,
        SecretError,
        StaleError,
        StartError,
        StateError,
        UsageError,
    )
    from launcher.jobfile import load_job, load_jobs
    from launcher.plan.model import Plan
    from launcher.runner import Runner, get_runner
    from launcher.specs import AppDef, AppState, Resource, Role

__all__ = [
    "IMAGE",
    "AppDef",
    "AppNotFoundError",
    "AppState",
    "BlockedError",
    "Choices",
    "CommandError",
    "JobFileError",
    "LauncherError",
    "LockTimeoutError",
    "Plan",
    "Resource",
    "Role",
    "Runner",
    "SchedulerError",
    "SecretError",
    "StaleError",
    "StartError",
    "StateError",
    "UsageError",
    "__version__",
    "apply_plan",
    "get_runner",
    "load_job",
    "load_jobs",
    "make_plan",
]

_NAMES = {
    "launcher.apply": "apply_plan make_plan",
    "launcher.apply.plans": "Choices",
    "launcher.components.image": "IMAGE",
    "launcher.errors": (
        "AppNotFoundError BlockedError CommandError JobFileError LauncherError LockTimeoutError "
        "SchedulerError SecretError StaleError StartError StateError UsageError"
    ),
    "launcher.jobfile": "load_job load_jobs",
    "launcher.plan.model": "Plan",
    "launcher.runner": "Runner get_runner",
    "launcher.specs": "AppDef AppState Resource Role",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted((*_HOMES, "__version__"))
