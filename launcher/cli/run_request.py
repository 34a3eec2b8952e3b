"""The JSON object that `run --stdin` reads: a component, its arguments, scheduler and run options."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from launcher.errors import UsageError
from launcher.text import name_hint


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The fields of the object.

    Attributes:
        scheduler_args: run options; `scheduler_cfg` takes precedence.
        component_args: parameter → value; `component_args_str` takes precedence.
        dryrun, detach, queue: as the options of these names.
        workspace, parent_run_id: as the options; None if absent.
        wait, log, tee_logs: accepted and ignored: `run` waits and shows output unless it detaches.
    """

    component_name: str
    scheduler: str
    scheduler_args: Mapping[str, Any]
    scheduler_cfg: Mapping[str, Any] = field(default_factory=dict)
    component_args: Mapping[str, Any] = field(default_factory=dict)
    component_args_str: list[str] = field(default_factory=list)
    dryrun: bool = False
    detach: bool = False
    queue: bool = False
    workspace: str | None = None
    parent_run_id: str | None = None
    wait: bool = False
    log: bool = False
    tee_logs: bool = False

    @property
    def options(self) -> str:
        """The run options as JSON."""
        return json.dumps({**self.scheduler_args, **self.scheduler_cfg})


REQUIRED = ("component_name", "scheduler", "scheduler_args")
_FORMS = {"str": (str, "text"), "bool": (bool, "true or false"), "list": (list, "a list of texts")}
_FORMS["Mapping"] = (dict, "an object")
EXAMPLE = '{"component_name": "utils.echo", "scheduler": "local_cwd", "scheduler_args": {}}'


def read_request(text: str | bytes) -> RunRequest:
    """Parse a request. Raises UsageError that names missing, unknown or invalid fields.

    Bytes are UTF-8 in any locale, UTF-16 or UTF-32; they may begin with a byte order mark.
    """
    try:
        given = json.loads(text)
    except ValueError as error:
        raise UsageError(f"standard input is not JSON: {error}", hint=f"such as {EXAMPLE}") from None
    except RecursionError:
        raise UsageError("standard input is nested too deep", hint=f"such as {EXAMPLE}") from None
    if not isinstance(given, dict):
        raise UsageError("standard input is not a JSON object", hint=f"such as {EXAMPLE}")
    form_of = {each.name: str(each.type).partition("[")[0].partition(" ")[0] for each in fields(RunRequest)}
    missing = [name for name in REQUIRED if name not in given]
    if missing:
        raise UsageError(f"standard input lacks {_named(missing)}", hint=f"such as {EXAMPLE}")
    for name, value in given.items():
        if name not in form_of:
            raise UsageError(f"unknown field `{name}` on standard input", hint=name_hint(name, form_of))
        form, wanted = _FORMS[form_of[name]]
        texts = not isinstance(value, list) or all(isinstance(each, str) for each in value)
        optional = value is None and name in ("workspace", "parent_run_id")
        if not optional and not (isinstance(value, form) and texts):
            raise UsageError(f"`{name}` must be {wanted}, got {json.dumps(value)}")
    return RunRequest(**given)


def _named(names: list[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)
