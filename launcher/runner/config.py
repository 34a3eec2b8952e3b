"""Defaults from files: run options of schedulers, arguments of components, flags of commands.

They are in `launcher.toml`, in tables `[schedulers.NAME]`, `[components."NAME"]` and `[cli.COMMAND]`. The
project's file (the nearest one from the current directory up to the top of the work tree) wins over the
user's (`$XDG_CONFIG_HOME/launcher/launcher.toml`); LAUNCHER_CONFIG names one file to be read instead.
These defaults are for `launcher run` and callers of this module. The document of a job file never depends on
the user's file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, MutableMapping, Sequence
from json import dumps
from typing import Any, TextIO

from launcher.errors import LauncherError, SchedulerError
from launcher.files import PROJECT_FILE, project_file, read_regular
from launcher.paths import xdg_folder
from launcher.schedulers.registry import get_scheduler, get_scheduler_factories
from launcher.specs.app import CfgVal
from launcher.specs.projectfile import TABLES, Fault, faults
from launcher.specs.runopts import get_type_name, runopt, runopts
from launcher.text import name_hint

CONFIG_FILE = PROJECT_FILE
ENV_CONFIG = "LAUNCHER_CONFIG"
_SINGULAR = {"scheduler": "schedulers", "component": "components"}
"""Other names of sections, such as TorchX's `component`."""

Table = dict[str, "Any"]


class ConfigError(LauncherError):
    """A configuration file cannot be read, or has an unknown entry: names file, line and nearest name."""


def find_configs(dirs: Iterable[str] | None = None) -> list[str]:
    """The existing configuration files, the one that wins first.

    Args:
        dirs: folders to look in, in this order; else the project's and the user's.

    Raises ConfigError when LAUNCHER_CONFIG names a file that is not there.
    """
    given = os.environ.get(ENV_CONFIG)
    if given:
        if not os.path.isfile(given):
            raise ConfigError(f"{ENV_CONFIG} names {given}, and there is no such file")
        return [given]
    if dirs is not None:
        found: Iterable[str] = (os.path.join(folder, CONFIG_FILE) for folder in dirs)
        return [path for path in found if os.path.isfile(path)]
    return [path for path in (project_file(os.getcwd()), _of_user()) if path]


def load(scheduler: str, f: TextIO, cfg: MutableMapping[str, CfgVal]) -> None:
    """Add a file's options for `scheduler` to `cfg`; existing options stay.

    Raises ConfigError for an option that the scheduler does not have, or of another type.
    """
    _add(scheduler, _Source(getattr(f, "name", CONFIG_FILE), f.read()), cfg)


def apply(scheduler: str, cfg: MutableMapping[str, CfgVal], dirs: Iterable[str] | None = None) -> None:
    """Add to `cfg` the options that the files have for `scheduler`. `cfg` wins, then the first file."""
    for path in find_configs(dirs):
        _add(scheduler, _read(path), cfg)


def load_sections(prefix: str, dirs: Iterable[str] | None = None) -> dict[str, Table]:
    """The tables below `prefix` (components, or component; cli; schedulers), by name.

    Per key the first file wins. Raises ConfigError for another prefix, with the nearest.
    """
    merged: dict[str, Table] = {}
    section = _SINGULAR.get(prefix, prefix)
    if section not in TABLES:
        raise ConfigError(f"configuration has no tables `{prefix}`", hint=name_hint(prefix, TABLES))
    for path in find_configs(dirs):
        for name, table in _read(path).tables(section).items():
            merged[name] = {**table, **merged.get(name, {})}
    return merged


def get_configs(prefix: str, name: str, dirs: Iterable[str] | None = None) -> Table:
    """One table, such as `get_configs("components", "dist.ddp")`; empty when there is none."""
    return load_sections(prefix, dirs).get(name, {})


def get_config(prefix: str, name: str, key: str, dirs: Iterable[str] | None = None) -> Any:
    """Return one value, such as `get_config("cli", "run", "scheduler")`; None when there is none."""
    return get_configs(prefix, name, dirs).get(key)


def component_defaults(dirs: Iterable[str] | None = None) -> dict[str, Table]:
    """Return the defaults of all components, for `get_runner(component_defaults=…)`.

    Numbers and truth values are texts, as on the command line, in lists and mappings too.

    Raises ConfigError for an unknown component, and for an unknown argument of a component.
    """
    for path in find_configs(dirs):
        _read(path).check_components()
    tables = load_sections("components", dirs)
    return {name: {key: _text(value) for key, value in table.items()} for name, table in tables.items()}


def dump(f: TextIO, schedulers: Sequence[str] | None = None, required_only: bool = False) -> None:
    """Write a table of run options per scheduler: defaults as comments, required options with placeholders.

    The file has no effect until a user edits it. When all schedulers are written, one whose package is broken
    becomes a comment.

    Raises UnknownSchedulerException, a ValueError, and SchedulerError for a named one that is broken; both
    before anything is written.
    """
    chosen = get_scheduler_factories() if schedulers is None else schedulers
    parts = []
    for name in chosen:
        try:
            opts = get_scheduler(name, "launcher").run_opts()
        except SchedulerError as error:
            if schedulers is not None:
                raise
            parts.append(f"# {' '.join(str(error).split())}\n")
            continue
        lines = [_option_line(key, opt) for key, opt in opts if opt.is_required or not required_only]
        parts.append(f"[schedulers.{_key(name)}]\n" + "".join(lines))
    f.write("\n".join(parts))


class _Source:
    """A configuration file: its name, its text and its tables."""

    def __init__(self, name: str, text: str) -> None:
        import tomli

        self.name = name
        self._lines = text.splitlines()
        try:
            self._value: Table = tomli.loads(text)
        except tomli.TOMLDecodeError as error:
            raise ConfigError(f"{name}: {error}") from error

    def tables(self, section: str) -> dict[str, Table]:
        """The tables of a section, by name. Raises ConfigError for unknown entries in any section."""
        # A file that is the user's own, or that LAUNCHER_CONFIG names, may not change what job files mean.
        path = os.path.abspath(self.name)
        own = (os.path.abspath(each) for each in (os.environ.get(ENV_CONFIG), _of_user()) if each)
        is_private = path in own and path != project_file(os.getcwd())
        self._refuse(faults(self._value, get_scheduler_factories(), is_shared=not is_private))
        found: dict[str, Table] = self._value.get(section, {})
        return found

    def check_components(self) -> None:
        """Raise ConfigError for defaults of unknown components or arguments."""
        if tables := self.tables("components"):
            from launcher.components.finder import unknown_defaults

            self._refuse(unknown_defaults(tables))

    def _refuse(self, found: Iterable[Fault]) -> None:
        for fault in found:
            hint = fault.remedy or name_hint(fault.path[-1], fault.known)
            raise self.error(fault.path, fault.message, hint=hint)

    def error(self, path: Sequence[str], message: str, *, hint: str | None = None) -> ConfigError:
        """The error with file, line and column of the entry at `path`."""
        line, column = self._place(path)
        return ConfigError(f"{self.name}:{line}:{column}: {message}", hint=hint)

    def _place(self, path: Sequence[str]) -> tuple[int, int]:
        """Return the position of the key: the first line with it behind the header of its table."""
        *heads, last = path
        header, itself = _header(heads or [last]), _header(path, end=r"[].]")
        key = re.compile(rf"\s*(?={_spelt(last)}\s*[=.])")
        inside = not heads
        for number, line in enumerate(self._lines, 1):
            if itself.match(line):
                return number, 1
            if header.match(line):
                inside = True
            elif inside and (found := key.match(line)):
                return number, found.end() + 1
        return self._place(heads) if heads else (1, 1)


def _header(path: Sequence[str], end: str = r"\]") -> re.Pattern[str]:
    return re.compile(r"\s*\[\s*" + r"\s*\.\s*".join(map(_spelt, path)) + rf"\s*{end}")


def _read(path: str) -> _Source:
    try:
        text = read_regular(path, 1 << 20).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    return _Source(path, text)


def _add(scheduler: str, source: _Source, cfg: MutableMapping[str, CfgVal]) -> None:
    table = source.tables("schedulers").get(scheduler)
    if not table:
        return

    opts = get_scheduler(scheduler, "launcher").run_opts()
    for key, value in table.items():
        cfg.setdefault(key, _checked(source, scheduler, key, value, opts))


def _checked(source: _Source, scheduler: str, key: str, value: Any, opts: runopts) -> CfgVal:
    option, path = opts.get(key), ("schedulers", scheduler, key)
    if option is None:
        hint = name_hint(key, [name for name, _ in opts])
        raise source.error(path, f"scheduler `{scheduler}` has no option `{key}`", hint=hint)
    plain: CfgVal = option.plain(value)
    if not opts.is_type(plain, option.opt_type):
        want = get_type_name(option.opt_type)
        raise source.error(path, f"`{key}` must be {want}, not {type(value).__name__}", hint=option.help)
    fault = option.fault(plain)
    if fault is not None:
        raise source.error(path, f"`{key}` must be {fault.wanted}, not {value!r}", hint=option.help)
    return plain


def _of_user() -> str | None:
    base = xdg_folder("XDG_CONFIG_HOME", os.path.join("~", ".config"))
    path = os.path.join(base, "launcher", CONFIG_FILE)
    return path if os.path.isfile(path) else None


def _option_line(key: str, opt: runopt) -> str:
    help_text = " ".join(opt.help.split())
    if opt.is_required:
        return f'{key} = "FIXME"  # {help_text}\n'
    if opt.default is None:
        return f"# {key} =   # {help_text}\n"
    return f"# {key} = {_literal(opt.default)}  # {help_text}\n"


def _literal(value: Any) -> str:
    """Return a value as TOML text. Values of options have the same text in JSON, except tables."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_literal(inner)}" for key, inner in value.items()) + "}"
    return dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _literal(name)


def _spelt(name: str) -> str:
    """A key of a TOML text, bare or quoted."""
    return rf"""["']?{re.escape(name)}["']?"""


def _text(value: Any) -> Any:
    """Return a default with its numbers and truth values in the form of the command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return [_text(item) for item in value]
    if isinstance(value, dict):
        return {key: _text(inner) for key, inner in value.items()}
    return str(value)
