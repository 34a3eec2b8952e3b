"""What every scheduler refuses before it makes anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from launcher.errors import SchedulerError
from launcher.specs.app import AppDef
from launcher.specs.check import SET_FOR_REPLICAS, Problem, check_app
from launcher.specs.runopts import runopts


class RejectedAppError(SchedulerError, ValueError):
    """A scheduler cannot run the AppDef: every problem with its place, one a line."""


def check_runnable(app: AppDef, own: Callable[[AppDef], Iterable[Problem]] | None = None) -> None:
    """Raises RejectedAppError for an app that breaks a rule of all schedulers, or of this one's `own`.

    The scheduler's own rules are asked only when the app has the right shape.
    """
    problems = check_app(app)
    if own is not None and all(problem.code != "wrong-type" for problem in problems):
        problems += own(app)
    if problems:
        found = "\n".join(f"  {'.'.join(str(part) for part in p.path)}: {p.message}" for p in problems)
        raise RejectedAppError(f"app `{app.name}` cannot be run:\n{found}")


def add_times(opts: runopts, grace_s: float) -> None:
    """The options `timeout_s` and `grace_s`, of all schedulers that can keep them."""
    opts.add(
        "timeout_s",
        int,
        "seconds after which the whole app is stopped and has failed; no limit if not given",
        minimum=1,
    )
    opts.add(
        "grace_s", float, "seconds from TERM to KILL when the app is stopped", default=grace_s, minimum=0
    )


def overridden(app: AppDef) -> list[str]:
    """Notes on variables that roles set and every replica gets from its scheduler all the same."""
    return [
        f"role `{role.name}`: its {name} is not used: every replica gets that from its scheduler"
        for role in app.roles
        for name in SET_FOR_REPLICAS
        if name in role.env
    ]
