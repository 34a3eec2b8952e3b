"""Check the types of arguments that Python callers pass to make and apply plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from launcher.errors import LauncherError
from launcher.plan.model import Plan
from launcher.specs.launch import Launch


class WrongArgumentError(LauncherError, TypeError):
    """An argument of another type than the function takes."""


def check_launches(function: str, launches: Any) -> None:
    """Raise WrongArgumentError for anything but a list of launches."""
    if isinstance(launches, Launch):
        raise _wrong(function, "a list of launches", launches, f"put it into a list: {function}([launch])")
    if isinstance(launches, (str, bytes)) or not isinstance(launches, Sequence):
        raise _wrong(function, "a list of launches", launches, _load(function, launches))
    for launch in launches:
        if not isinstance(launch, Launch):
            raise _wrong(function, "a list of launches", launch, _load(function, launch), where=" in it")


def check_is_plan(function: str, plan: Any) -> None:
    """Raise WrongArgumentError for anything but a Plan."""
    if not isinstance(plan, Plan):
        hint = "make_plan(launches) makes one; `launcher apply plan.json` applies a saved one"
        raise _wrong(function, "a plan", plan, hint)


def _load(function: str, given: Any) -> str:
    file = repr(given) if isinstance(given, str) else '"train.launcher.yaml"'
    return f"load_job reads a job file: {function}([launcher.load_job({file})])"


def _wrong(function: str, wanted: str, given: Any, hint: str, where: str = "") -> WrongArgumentError:
    shown = repr(given)
    shown = shown if len(shown) <= 60 else f"{shown[:59]}…"
    return WrongArgumentError(
        f"{function} takes {wanted}, got{where} {type(given).__name__}: {shown}", hint=hint
    )
