"""The entries of a launcher.toml, for its two readers: job files of its project, and `launcher run`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from launcher.files import PROJECT_FILE

TABLES = ("schedulers", "components", "cli")
"""The sections with defaults for `launcher run`; job files use only `schedulers`."""

SHARED = ("vars", "defaults", "targets")
"""The tables of a project's launcher.toml that its job files inherit."""

FIELDS = ("project", "target", "lifecycle", *SHARED, "queue", "budget", "notify", "ci", "exclude", *TABLES)
DEFAULTS = ("role", "scheduler", "workspace", "timeout", "metadata")
"""The keys of the table `[defaults]`: fields of every job that does not set them."""

QUEUE = ("cpu", "memory", "gpus", "max_parallel")
"""The keys of the table `[queue]`: limits of what the project's jobs use of a machine together."""

BUDGET = ("gpu_hours", "core_hours")
"""The keys of the table `[budget]` and of its tables for single targets: limits of the hours that the jobs
which one plan starts may take together.
"""

NOTIFY = ("url", "secret", "command", "on")
"""The keys of the table `[notify]`: the receivers of the outcomes of attempts."""

CI = ("prune", "components")
"""The keys of the table `[ci]`: whether merges stop the apps of removed jobs, and whether plans of pull
requests may call components of the repository.
"""

COMMANDS: Mapping[str, tuple[str, ...]] = {"run": ("scheduler", "workspace")}
"""Command → the keys of its table `[cli.COMMAND]`."""


class Fault(NamedTuple):
    """A problem of the file, and its place.

    Attributes:
        path: the keys that lead to it, such as ("cli", "run", "sheduler").
        code: the code of its diagnostic.
        known: the valid names in place of the last key.
        remedy: the correct form; "" where `known` is enough.
    """

    path: tuple[str, ...]
    code: str
    message: str
    known: tuple[str, ...] = ()
    remedy: str = ""


def faults(
    value: Mapping[str, Any], schedulers: Collection[str] | None = None, *, is_shared: bool = True
) -> Iterator[Fault]:
    """Yield unknown entries of the file `value`, and values in place of tables.

    Args:
        schedulers: the known names; None if they are unknown.
        is_shared: whether the file is a project's. A user's file may not change what job files mean.
    """
    for key in () if is_shared else SHARED:
        if key in value:
            message = f"`{key}` would change what job files mean, and this file is not in their repository"
            remedy = f"move it to the {PROJECT_FILE} of the project"
            yield Fault((key,), "unknown-field", message, remedy=remedy)
    for key in value:
        if key not in FIELDS and not key.startswith("x-"):
            yield Fault((key,), "unknown-field", f"`{key}` is not a field of {PROJECT_FILE}", FIELDS)
    for key in ("vars", "targets"):
        if not isinstance(value.get(key, {}), dict):
            yield Fault((key,), "wrong-type", f"`{key}` must be a table", remedy=f"write [{key}.NAME]")
    overlays = value.get("targets")
    for name, part in overlays.items() if isinstance(overlays, dict) else ():
        if not (isinstance(part, dict) or name.startswith("x-")):
            yield Fault(("targets", name), "wrong-type", f"`targets.{name}` must be a table")
    yield from _of_table("defaults", DEFAULTS, value.get("defaults", {}))
    yield from _of_table("queue", QUEUE, value.get("queue", {}))
    yield from _of_budget(value.get("budget", {}))
    if "notify" in value:
        yield from _of_notify(value["notify"])
    yield from _of_table("ci", CI, value.get("ci", {}))
    table = value.get("ci", {})
    for key in CI if isinstance(table, dict) else ():
        if not isinstance(table.get(key, False), bool):
            yield Fault(("ci", key), "wrong-type", f"`{key}` must be true or false")
    for section in TABLES:
        yield from _of_section(section, value.get(section, {}), schedulers)


def _of_table(name: str, fields: tuple[str, ...], table: Any) -> Iterator[Fault]:
    if not isinstance(table, dict):
        yield Fault((name,), "wrong-type", f"`{name}` must be a table", remedy=f"write [{name}]")
        return
    for key in table:
        if key not in fields and not key.startswith("x-"):
            yield Fault((name, key), "unknown-field", f"`{name}` has no `{key}`", fields)


def _of_budget(table: Any) -> Iterator[Fault]:
    """Yield the faults of `[budget]`, in which a table has the limits of one target."""
    if not isinstance(table, dict):
        yield from _of_table("budget", BUDGET, table)
        return
    targets = {
        key: part
        for key, part in table.items()
        if isinstance(part, dict) and key not in BUDGET and not key.startswith("x-")
    }
    yield from _of_table("budget", BUDGET, {key: table[key] for key in table if key not in targets})
    for target, part in targets.items():
        for fault in _of_table(f"budget.{target}", BUDGET, part):
            yield fault._replace(path=("budget", target, *fault.path[1:]))


def _of_notify(table: Any) -> Iterator[Fault]:
    yield from _of_table("notify", NOTIFY, table)
    if not isinstance(table, dict):
        return
    if "url" not in table and "command" not in table:
        message = "`notify` names no receiver"
        yield Fault(("notify",), "missing-field", message, remedy="add `url` or `command`")
    elif "secret" in table and "url" not in table:
        message = "`secret` signs what a `url` gets, and there is none"
        yield Fault(("notify", "secret"), "constraint", message, remedy="add `url`, or remove it")


def _of_section(section: str, tables: Any, schedulers: Collection[str] | None) -> Iterator[Fault]:
    if not isinstance(tables, dict):
        message = f"`{section}` must hold tables"
        yield Fault((section,), "wrong-type", message, remedy=f"write [{section}.NAME]")
        return
    for name, table in tables.items():
        path = (section, name)
        if not isinstance(table, dict):
            shown = name if name.replace("_", "").replace("-", "").isalnum() else f'"{name}"'
            message = f"`{section}.{name}` must be a table"
            yield Fault(path, "wrong-type", message, remedy=f"write [{section}.{shown}]")
        elif section == "cli" and name not in COMMANDS:
            message = f"`cli.{name}` is no table of this file"
            yield Fault(path, "unknown-field", message, tuple(COMMANDS))
        elif section == "cli":
            for key in table:
                if key not in COMMANDS[name]:
                    message = f"`cli.{name}` has no `{key}`"
                    yield Fault((*path, key), "unknown-field", message, COMMANDS[name])
        elif section == "schedulers" and schedulers is not None and name not in schedulers:
            yield Fault(path, "unknown-variant", f"there is no scheduler `{name}`", tuple(schedulers))
