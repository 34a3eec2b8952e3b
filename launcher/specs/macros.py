"""Macros: placeholders in text for values that only the run knows (`$<app_id>`).

The grammar; text is read from left to right, each character once:

- `$<name>`: a macro. `${name}` is one too for the five established names. Unknown names are
  left as they are, and so is every other `$`: `$HOME`, `${HOME:-x}`, `$$`, `$(date)`.
- A `$` straight before `$<name>` or `${` is an escape: it goes, and what follows is text. `$$<app_id>`
  writes `$<app_id>`, `$${` writes `${`.

Text is filled either in one go (`substitute`) or in phases: `substitute_partial` for all phases but the
last. Both ways give the same result; what a value contains is never read as a macro.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from launcher.dataclass import dataclass, replace
from launcher.errors import LauncherError
from launcher.specs.app import MOUNTS, ROLE_FIELDS, Resource, Role
from launcher.specs.mounts import Mount, VolumeMount
from launcher.specs.secret import Secret

SYMBOLIC_APP_ID = "$<app_id>"
"""The app id of a dry run."""

ESTABLISHED = ("img_root", "app_id", "replica_id", "rank0_env", "base_img_root")
"""The names that are also macros when written as `${name}`."""

OUTPUT_DIR = "output_dir"

RUN_MACROS = (*ESTABLISHED, "role", "num_replicas", "rank0_host", OUTPUT_DIR)
"""The names that the run fills in; `rank0_host` only if the scheduler gives hosts, `output_dir` for jobs."""

_NAME = r"[A-Za-z_][A-Za-z0-9_.\-]*"
_FIVE = "|".join(ESTABLISHED)
# Text that reads as a macro gets one more `$`, and so does text that already reads as an escape, `$${`. A
# lone `${` of the shell is no macro and stays.
_NEEDS_ESCAPE = rf"\$(?=<{_NAME}>|\{{(?:{_FIVE})\}})|(?<!\$)\$(?=\$+\{{(?!(?:{_FIVE})\}}))"


class MacroError(LauncherError, ValueError):
    """A text with open macros cannot be spelled out."""


def role_of_host(name: str) -> str | None:
    """The role whose host a macro names: "role.server.host" → "server"; None for any other macro."""
    return _between("role.", name, ".host")


def needs_host(name: str) -> bool:
    """Whether a macro is the host of a replica, which not every scheduler knows."""
    return name == "rank0_host" or role_of_host(name) is not None


def hosts_of(hosts: Mapping[str, str]) -> dict[str, str]:
    """Return the values of host macros, from role → host of its replica 0; the first role comes first."""
    values = {f"role.{role}.host": host for role, host in hosts.items()}
    first = next(iter(hosts.values()), None)
    return values if first is None else {**values, "rank0_host": first}


HOST_VARIABLES = "LAUNCHER_HOST_"
"""The prefix of the variables of `host_variable`."""


def host_variable(role: str) -> str:
    """The environment variable with the host of a role's replica 0: LAUNCHER_HOST_SERVER."""
    return HOST_VARIABLES + "".join(c if c.isascii() and c.isalnum() else "_" for c in role).upper()


def serving(roles: Mapping[str, Any]) -> list[str]:
    """Return the services, roles with a probe and awaited roles, whose hosts every replica gets.

    Args:
        roles: name → the role, of an app or of a job file.
    """
    awaited = {name for role in roles.values() for name in role.depends_on}
    return [name for name, role in roles.items() if role.service or role.ready is not None or name in awaited]


def job_of_output(name: str) -> str | None:
    """Return the job whose output folder a macro names ("needs.prepare.output_dir" → "prepare"), or None."""
    return _between("needs.", name, f".{OUTPUT_DIR}")


def _between(begin: str, name: str, end: str) -> str | None:
    middle = name.removeprefix(begin).removesuffix(end)
    return middle if middle and len(name) == len(begin) + len(middle) + len(end) else None


def is_run_macro(name: str) -> bool:
    """Whether the run fills in a macro, with or without a dot in its name."""
    return name in RUN_MACROS or role_of_host(name) is not None or job_of_output(name) is not None


def find_macros(text: str) -> Sequence[tuple[str, int, int]]:
    """Return the macros of `text` as (name, start, end), known or not; an escaped macro is text."""
    if "$" not in text:
        return ()
    return _kept_macros(text) if len(text) <= _MOST_KEPT else _macros_of(text)


@cache
def _tokens() -> re.Pattern[str]:
    """The pattern of macros and escapes, compiled at its first use: that would slow down fast commands."""
    return re.compile(
        rf"(?P<escape>\$\$(?:\{{|<{_NAME}>))|\$<(?P<name>{_NAME})>|\$\{{(?P<established>{_FIVE})\}}"
    )


def _macros_of(text: str) -> Sequence[tuple[str, int, int]]:
    return tuple(
        (name, *token.span())
        for token in _tokens().finditer(text)
        if (name := token["name"] or token["established"])
    )


_MOST_KEPT = 200  # characters; several passes ask about each text of a job file
_kept_macros = lru_cache(2048)(_macros_of)


def substitute(text: str, values: Mapping[str, str]) -> str:
    """Fill in the macros of `text` that `values` names, and resolve escapes: the last phase."""
    if "$" not in text:
        return text

    def fill(token: re.Match[str]) -> str:
        if token["escape"]:
            return token[0][1:]
        return values.get(token["name"] or token["established"], token[0])

    return _tokens().sub(fill, text)


def substitute_partial(text: str, values: Mapping[str, str]) -> str:
    """Fill in only the macros of `text` that `values` names, and leave the rest to a later phase.

    Escapes stay, and what the values contain is escaped where the later phase would read it as a macro.
    Raises MacroError for a value that ends in `$` right before a macro that stays: it cannot be spelled.
    """
    return "".join(_respelt(text, values)) if "$" in text else text


def _respelt(text: str, values: Mapping[str, str]) -> Iterator[str]:
    """Split `text` into runs of text for the later phase, and the macros that stay."""
    run = raw = ""  # the run of text as it will read, and as the user wrote it
    filled = False
    at = 0
    for token in _tokens().finditer(text):
        run += text[at : token.start()]
        raw += text[at : token.start()]
        at = token.end()
        name = token["name"] or token["established"]
        if token["escape"]:
            run += token[0][1:]
            raw += token[0]
        elif name in values:
            run += values[name]
            filled = True
        else:
            if filled and run.endswith("$"):
                raise MacroError(f"a value that ends in `$` cannot stand straight before a macro: {text}")
            yield escape(run) if filled else raw
            yield token[0]
            run = raw = ""
            filled = False
    yield escape(run + text[at:]) if filled else raw + text[at:]


def escape(text: str) -> str:
    """Return `text` escaped, so that no later phase reads a macro in it."""
    return re.sub(_NEEDS_ESCAPE, "$$", text) if "$" in text else text


def with_brackets(text: str) -> str:
    """`text` with `${app_id}` and the other established macros spelled `$<app_id>`; all else stays."""
    return _tokens().sub(
        lambda token: f"$<{token['established']}>" if token["established"] else token[0], text
    )


def map_text(value: Any, change: Callable[[str], str]) -> Any:
    """Return a copy of plain data with every string changed, except for keys and references to secrets."""
    if isinstance(value, str):
        return value if isinstance(value, Secret) else change(value)
    if isinstance(value, Mapping):
        return {key: map_text(inner, change) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        changed = [map_text(inner, change) for inner in value]
        return changed if isinstance(value, list) else tuple(changed)
    return _copied(value)


def _copied(value: Any, _: object = None) -> Any:
    """Return a deep copy of a role's field. Most fields are empty, and `deepcopy` is slow even for these."""
    if not value:
        return value.copy() if isinstance(value, (dict, list)) else value
    if type(value) is Resource and not (value.devices or value.tags or value.capabilities):
        return Resource(value.cpu, value.gpu, value.memMB)
    from copy import deepcopy

    return deepcopy(value)


def map_role(role: Role, change: Callable[[str], str]) -> Role:
    """Return a new role in which every text that takes macros is changed. Nothing mutable is shared.

    References to secrets are names, not text: they stay.
    """
    return replace(role, **{name: changed(getattr(role, name), change) for name, changed in _COPIED})


def _map_sources(mounts: Iterable[Mount], change: Callable[[str], str]) -> list[Mount]:
    return [
        replace(mount, src=change(mount.src))
        if isinstance(mount, VolumeMount)
        else replace(mount, src_path=change(mount.src_path))
        for mount in mounts
    ]


_Copy = Callable[[Any, Callable[[str], str]], Any]
_COPIES: Mapping[str, _Copy] = {MOUNTS: _map_sources, "dict[str, int]": lambda value, _: dict(value)}
_COPIED = [
    (each.name, _COPIES.get(each.kind, map_text if each.takes_macros else _copied))
    for each in ROLE_FIELDS.values()
    if each.takes_macros or each.is_mutable
]


class macros:
    """The text to put into an AppDef: `args=["--run", macros.app_id]`.

    - `img_root`: folder of the image's files (local schedulers)
    - `app_id`: id of the app, the same for all its replicas
    - `replica_id`: 0, 1, … within the role
    - `rank0_env`: name of the environment variable with the host of replica 0
    - `base_img_root`: deprecated
    """

    img_root = "${img_root}"
    app_id = "${app_id}"
    replica_id = "${replica_id}"
    rank0_env = "${rank0_env}"
    base_img_root = "${base_img_root}"

    @dataclass
    class Values:
        """The values of the macros in one replica."""

        img_root: str
        app_id: str
        replica_id: str
        rank0_env: str
        base_img_root: str = "DEPRECATED"

        def substitute(self, arg: str) -> str:
            """Fill in the five macros and resolve escapes. Raises TypeError for anything but text."""
            if not isinstance(arg, str):
                raise TypeError(f"want text to substitute macros in, got {type(arg).__name__}")
            return substitute(arg, self.to_dict())

        def apply(
            self, role: Role, *, partial: Collection[str] = (), hosts: Mapping[str, str] | None = None
        ) -> Role:
            """Return a new role with the macros filled in, `$<role>` and `$<num_replicas>` too.

            In: entrypoint, args, values of env, sources of mounts, and metadata at any depth.
            With `partial={"app_id"}` these names stay open and escapes stay as they are, for a later
            `substitute` (see `substitute_partial`).

            Args:
                hosts: the values of `hosts_of`; without them the macros that name hosts stay.
            """
            values = {
                **(hosts or {}),
                **self.to_dict(),
                "role": role.name,
                "num_replicas": str(role.num_replicas),
            }
            if not partial:
                return map_role(role, lambda text: substitute(text, values))
            known = {name: value for name, value in values.items() if name not in partial}
            return map_role(role, lambda text: substitute_partial(text, known))

        def to_dict(self) -> dict[str, str]:
            """Return macro name → value."""
            return {name: getattr(self, name) for name in ESTABLISHED}
