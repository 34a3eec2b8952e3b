"""Errors for names that match no app, with the nearest name as hint."""

from __future__ import annotations

import os

from launcher.errors import LauncherError
from launcher.inventory import recorded
from launcher.inventory.project import project_here
from launcher.text import nearest

_MOST = 1000  # newest apps whose names are suggested


def no_match(pattern: str, unreached: str) -> LauncherError:
    """The error for a pattern. `unreached`: the text of `held_by_engines` about unreachable engines."""
    hint = _did_you_mean(pattern.strip("*?[]"), unreached)
    return LauncherError(f"`{pattern}` matches no job or app", hint=hint)


def no_app(name: str, number: int | None, target: str, unreached: str) -> LauncherError:
    """The error for a name, with a number and a target ("" for any) if given; `unreached` as above."""
    attempts = recorded.find(name)
    latest = [each for each in attempts if target in ("", each.target)]
    if attempts and not latest:
        hint = f"it has attempts in {', '.join(sorted({each.target or '' for each in attempts}))}"
        return LauncherError(f"job `{name}` has no attempt in target `{target}`", hint=hint)
    if latest and number is not None:
        hint = f"its latest recorded attempt is {latest[0].number}"
        return LauncherError(f"job `{name}` has no attempt {number}", hint=hint)
    hint = _did_you_mean(name, unreached)
    if os.path.exists(name):
        hint = "it is a file here; quote patterns, such as 'train*', so that the shell does not expand them"
    return LauncherError(
        f"no job or app is named `{name}{'' if number is None else f'@{number}'}`", hint=hint
    )


def _did_you_mean(name: str, unreached: str) -> str:
    known = _known_names()
    near = nearest(name, known)
    return f"did you mean `{known[near]}`?" if near else f"`launcher list` shows all apps{unreached}"


def _known_names() -> dict[str, str]:
    """Name to compare with → name to suggest; for a common prefix of several jobs, a pattern."""
    here, jobs = project_here(), [each for each in recorded.newest(_MOST) if each.job]
    begun: dict[str, set[str]] = {}
    for each in jobs:
        parts = each.name.split("-")
        for end in range(1, len(parts) if each.project == here else 0):
            begun.setdefault("-".join(parts[:end]), set()).add(each.name)
    known = {name: f"{name}-*" for name, names in begun.items() if len(names) > 1}
    for each in jobs:
        known[each.name], known[each.app_id] = each.name, each.app_id
    return known
