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

    from launcher.apply import apply_plan as apply_plan, make_plan as make_plan
    from launcher.components.image import IMAGE as IMAGE
    from launcher.errors import (
        AppNotFoundError as AppNotFoundError,
        BlockedError as BlockedError,
        CommandError as CommandError,
        JobFileError as JobFileError,
        LauncherError as LauncherError,
        LockTimeoutError as LockTimeoutError,
        SchedulerError as SchedulerError,
        SecretError as SecretError,
        StaleError as StaleError,
        StartError as StartError,
        StateError as StateError,
        UsageError as UsageError,
    )
    from launcher.jobfile import load_job as load_job, load_jobs as load_jobs
    from launcher.plan.model import Plan as Plan
    from launcher.plan.reconcile import Choices as Choices
    from launcher.runner import Runner as Runner, get_runner as get_runner
    from launcher.specs import AppDef as AppDef, AppState as AppState, Resource as Resource, Role as Role


def hand_on(
    package: str, names_of: "Mapping[str, str]", *others: str
) -> "tuple[Callable[[str], object], Callable[[], list[str]], list[str]]":
    """The `__getattr__`, `__dir__` (PEP 562) and `__all__` of a package that hands on names of its modules.

    Type checkers and editors read the names from imports of the form `A as A`.

    Args:
        names_of: module, below the package or with a full name → the public names that it defines.
        others: public names that the package defines itself.
    """
    homes = {name: module for module, names in names_of.items() for name in names.split()}

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        home = homes[name]
        return getattr(import_module(home if home.startswith("launcher.") else f"{package}.{home}"), name)

    return load, lambda: sorted((*homes, *others)), [*homes, *others]


__getattr__, __dir__, __all__ = hand_on(
    __name__,
    {
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
    },
    "__version__",
)
