"""launcher: a declarative, job-file driven launcher for work that runs to completion.

The public names are loaded on first use, so that `import launcher` costs nothing:

    launch = launcher.load_job("train.launcher.yaml", vars={"epochs": 5}, target="dev")
    plan = launcher.make_plan([launch])
    result = launcher.apply_plan(plan, wait=True)
"""

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from launcher.apply import apply_plan, make_plan
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
    from launcher.plan.reconcile import Choices
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
    "launcher.components.image": "IMAGE",
    "launcher.errors": (
        "AppNotFoundError BlockedError CommandError JobFileError LauncherError LockTimeoutError "
        "SchedulerError SecretError StaleError StartError StateError UsageError"
    ),
    "launcher.jobfile": "load_job load_jobs",
    "launcher.plan.model": "Plan",
    "launcher.plan.reconcile": "Choices",
    "launcher.runner": "Runner get_runner",
    "launcher.specs": "AppDef AppState Resource Role",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}


def hand_on(
    package: str, homes: "Mapping[str, str]", *others: str
) -> "tuple[Callable[[str], object], Callable[[], list[str]]]":
    """The functions `__getattr__` and `__dir__` (PEP 562) of a package that hands on names of its modules.

    Args:
        homes: public name → the module that defines it, below the package or with a full name.
        others: public names that the package defines itself.
    """

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        home = homes[name]
        return getattr(import_module(home if home.startswith("launcher.") else f"{package}.{home}"), name)

    return load, lambda: sorted((*homes, *others))


__getattr__, __dir__ = hand_on(__name__, _HOMES, "__version__")
