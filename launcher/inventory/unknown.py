"""What to say of a word that means no app, with the nearest name."""

from __future__ import annotations

import os

from launcher.errors import LauncherError
from launcher.inventory import recorded
from launcher.inventory.project import project_here
from launcher.text import nearest

_MOST = 1000  # apps that a misspelt name is compared with


def matches_nothing(pattern: str, unasked: str) -> LauncherError:
    """Of a pattern. `unasked`: engines that could not be asked, as `held_by_engines` names them."""
    hint = _did_you_mean(pattern.strip("*?[]"), unasked)
    return LauncherError(f"`{pattern}` matches no job and no app", hint=hint)


def means_nothing(name: str, number: int | None, target: str, unasked: str) -> LauncherError:
    """Of a name, which may have an attempt's number and a target ("" for any); `unasked` as above."""
    attempts = recorded.find(name)
    latest = [each for each in attempts if target in ("", each.target)]
    if attempts and not latest:
        hint = f"it has some in {', '.join(sorted({each.target or '' for each in attempts}))}"
        return LauncherError(f"job `{name}` has no attempt in target `{target}`", hint=hint)
    if latest and number is not None:
        hint = f"its latest on record here is attempt {latest[0].number}"
        return LauncherError(f"job `{name}` has no attempt {number}", hint=hint)
    hint = _did_you_mean(name, unasked)
    if os.path.exists(name):
        hint = "it is a file here; quote a pattern, such as 'train*', so that the shell leaves it alone"
    return LauncherError(
        f"there is no job or app `{name}{'' if number is None else f'@{number}'}`", hint=hint
    )


def _did_you_mean(name: str, unasked: str) -> str:
    known = _known_names()
    near = nearest(name, known)
    return f"did you mean `{known[near]}`?" if near else f"`launcher list` shows what there is{unasked}"


def _known_names() -> dict[str, str]:
    """What a misspelt name is compared with → what to type for it: for what names begin with, a pattern."""
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
