"""What every scheduler refuses before it makes anything."""

from __future__ import annotations

from launcher.errors import SchedulerError
from launcher.specs.check import Problem, check_app
from launcher.specs.runopts import InvalidRunConfigException

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from launcher.specs.app import AppDef, CfgVal


class InvalidAppException(SchedulerError, ValueError):
    """The AppDef makes no sense: every problem with its place, one a line."""


def check_runnable(app: AppDef, own: Callable[[AppDef], Iterable[Problem]] | None = None) -> None:
    """Raises InvalidAppException for an app that breaks a rule of all schedulers, or of this one's `own`.

    The scheduler's own rules are asked only when the app has the right shape.
    """
    problems = check_app(app)
    if own is not None and all(problem.code != "wrong-type" for problem in problems):
        problems += own(app)
    if problems:
        found = "\n".join(f"  {'.'.join(str(part) for part in p.path)}: {p.message}" for p in problems)
        raise InvalidAppException(f"app `{app.name}` cannot be run:\n{found}")


def check_times(cfg: Mapping[str, CfgVal]) -> None:
    """Raises InvalidRunConfigException for a timeout or a grace out of range."""
    timeout_s = cfg.get("timeout_s")
    if isinstance(timeout_s, int) and timeout_s < 1:
        raise InvalidRunConfigException("timeout_s must be 1 or more (seconds)", "timeout_s", cfg)
    grace_s = cfg.get("grace_s")
    if isinstance(grace_s, (int, float)) and grace_s < 0:
        raise InvalidRunConfigException("grace_s must be 0 or more (seconds)", "grace_s", cfg)


_SET_FOR_ALL = ("LAUNCHER_JOB_ID", "LAUNCHER_RANK0_HOST", "LAUNCHER_SCRATCH")


def overridden(app: AppDef) -> list[str]:
    """Notes on variables that roles set and every replica gets from its scheduler all the same."""
    return [
        f"role `{role.name}`: its {name} is not used: every replica gets that from its scheduler"
        for role in app.roles
        for name in _SET_FOR_ALL
        if name in role.env
    ]
