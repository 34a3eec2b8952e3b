"""`launcher convert`: write the job file that equals a component call or a file of another tool."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any

from launcher.cli.compile import role_fields
from launcher.cli.console import Console
from launcher.cli.init import label
from launcher.cli.jobs import add_cfg, words_of
from launcher.cli.run_component import called
from launcher.components.call import ComponentArgs
from launcher.components.component import Component
from launcher.components.evaluate import first_difference, plain
from launcher.convert.convert import KINDS, Converted, convert, is_file
from launcher.dataclass import replace
from launcher.errors import JobFileError, LauncherError, UsageError
from launcher.jobfile.compile.build import script_of
from launcher.jobfile.compile.files import compile_text
from launcher.jobfile.format import format_text
from launcher.jobfile.model.role import RoleSpec
from launcher.jobfile.text.document import Source, source_of
from launcher.jobfile.text.parse import parse
from launcher.runner import get_runner
from launcher.schedulers.registry import SchedulerRules, get_default_scheduler_name
from launcher.specs.app import AppDef
from launcher.specs.text import to_yaml

USAGE = "convert [OPTIONS] (FILE | COMPONENT [ARGUMENTS])"
HELP = """\
Print the job file that is equal to a file of another tool, or to a component
call, so that it can be committed, planned and applied. Save it beside FILE, or
in the current directory for a component: its paths are relative to that.

FILE is an sbatch script, a compose file or a Procfile. Nothing of it runs, no
`.env` is read, and no secret is copied. A comment `no place` says what the job
file cannot have. For an sbatch script, stderr compares each of its options with
the request of the job. With --strict, exit code 6 says that something has no
place, differs, or is a warning of `launcher validate`.

For a COMPONENT, the file lists the roles; if a job file cannot express them, it
calls the component instead."""
EXAMPLES = """\
  launcher convert train.sbatch > train.launcher.yaml
  launcher convert compose.yaml --name shop --strict > shop.launcher.yaml
  launcher convert utils.sh --num_replicas 2 -- echo hello > hello.launcher.yaml
  launcher convert --name train ./train.py:train --lr 0.1 > train.launcher.yaml"""


def add_arguments(parser: Any) -> None:
    parser.add_argument(
        "component", metavar="FILE | COMPONENT", help="file, component name, or file.py:function"
    )
    parser.option("--from KIND", "sbatch, compose or procfile", choices=KINDS)
    parser.option("--strict", "exit with 6 unless all of FILE has a place")
    parser.option("--name NAME", "name of the job (default: the app's, or the file's)")
    parser.option("-s, --scheduler SCHEDULER", "scheduler of the job")
    add_cfg(parser)
    parser.option("--workspace FOLDER", "workspace folder of the job")
    parser.option("--json", "print one JSON object, with the text of the file")


def divide(words: Sequence[str], declared: Any) -> tuple[Sequence[str], Sequence[str] | None]:
    """Split the command line into the words of this command and those of the component."""
    own, rest = words_of(words, declared, always=True)
    is_forced = any(word.partition("=")[0] == "--from" for word in words)
    return (words, None) if own and (is_forced or is_file(own[-1])) else (own, rest)


def run(args: Any, console: Console) -> int:
    if args.component_args is None:
        return _convert_file(args, console)
    found = called(args.component, args.component_args or (), console)
    if found is None:
        return 0
    app, common = found[0].build(found[1]), _common(args, args.scheduler or "")
    whys = []
    for what in (_roles(app), _call(args.component, *found)):
        fields = {"version": 1, "name": args.name or label(app.name), **common, **what}
        # The order of roles determines the host of rank 0.
        text = _canonical(to_yaml(fields, sort=False))
        why = _disproof(text, app)
        if why is None:
            _print(Converted(text, {}, (), ()), 0, args, console)
            return 0
        whys.append(why)
    message = f"{args.component} cannot be written as a job file: {whys[1]}"
    raise LauncherError(
        message, hint=None if whys[0] == whys[1] else f"nor with its roles written out: {whys[0]}"
    )


def _convert_file(args: Any, console: Console) -> int:
    if args.name and label(args.name) != args.name:
        raise UsageError(f"`{args.name}` is not a valid job name", hint=f"such as `{label(args.name)}`")
    made = convert(
        args.component,
        kind=getattr(args, "from") or "",
        name=args.name or "",
        scheduler=args.scheduler or "",
        more=partial(_common, args),
    )
    code = JobFileError.exit_code if args.strict and not made.is_whole else 0
    _print(made, code, args, console)
    console.flush()
    width = max((len(row.option) for row in made.rows), default=0)
    for row in made.rows:
        console.note(f"{' ' if row.is_kept else '!'} {row.option:{width}}  {row.fate}")
    options = {row.option for row in made.rows}
    for what, why in made.lost.items():
        if what not in options:
            console.note(f"! {what}: {why}")
    for found in made.warnings:
        console.note(f"! {found.message}" + (f": {found.label}" if found.label else ""))
    return code


def _print(made: Converted, code: int, args: Any, console: Console) -> None:
    if not args.json:
        console.data(made.text)
        return
    value = {
        "exit": code,
        "text": made.text,
        "options": [{"option": row.option, "kept": row.is_kept, "fate": row.fate} for row in made.rows],
        "lost": [{"what": what, "why": why} for what, why in made.lost.items()],
        "warnings": [found.to_json() for found in made.warnings],
    }
    console.json(value)


def _common(args: Any, scheduler: str) -> dict[str, Any]:
    """The fields of the job other than its app. Raises LauncherError for an unknown scheduler or option."""
    if (args.workspace or "").startswith("{"):
        hint = "give one folder: --workspace FOLDER"
        raise UsageError("convert takes a single folder as workspace", hint=hint)
    with get_runner() as runner:
        cfg = runner.cfg_from_str(scheduler or get_default_scheduler_name(), *args.cfg)
    fields = {"scheduler": args.scheduler, "cfg": cfg, "workspace": args.workspace}
    return {key: value for key, value in fields.items() if value}


def _roles(app: AppDef) -> dict[str, Any]:
    """Return the fields of the job, with the app's roles written out."""
    roles = {role.name: _said(role_fields(role)) for role in app.roles}
    return {"roles": roles, **({"metadata": dict(app.metadata)} if app.metadata else {})}


def _call(name: str, component: Component, arguments: ComponentArgs) -> dict[str, Any]:
    """Return the job's fields with a component call, for apps that roles of a job file cannot express."""
    given: dict[str, Any] = {**arguments.positional_args, **arguments.kwargs}
    args = {}
    for key, parameter in component.parameters.items():
        value = tuple(arguments.var_args) if parameter.is_rest else given[key]
        if parameter.is_required or value != parameter.default:
            args[key] = list(value) if isinstance(value, tuple) else value
    return {"component": name, **({"args": args} if args else {})}


def _said(role: dict[str, Any]) -> dict[str, Any]:
    """Return a role without default values; the command of a script is written as a script."""
    said = {
        key: value
        for key, value in role.items()
        if RoleSpec.model_fields[key].get_default(call_default_factory=True) != value
    }
    script = script_of(role["entrypoint"], role.get("args", ()))
    if script is None:
        return said
    return {**{key: value for key, value in said.items() if key not in ("entrypoint", "args")}, **script}


def _canonical(text: str) -> str:
    """Return the text as `launcher fmt` writes it; an invalid text unchanged, for `_disproof` to report."""
    source = source_of("job.launcher.yaml", text.encode())
    if not isinstance(source, Source):
        return text
    try:
        return format_text(source, parse(source))
    except LauncherError:
        return text


def _disproof(text: str, app: AppDef) -> str | None:
    """Return why `text`, as a job file in this folder, does not define `app` (names aside), or None."""
    compiled = compile_text(text, os.path.abspath("job.launcher.yaml"), SchedulerRules())
    if compiled.errors:
        return "; ".join(found.message for found in compiled.errors)
    same = replace(compiled.launches[0].app, name=app.name)
    path = first_difference(plain(same), plain(app))
    return f"{path} differs" if path else None
