"""`launcher convert`: from a component on a command line to a job file that can be committed."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from launcher.cli.console import Console
    from launcher.specs import AppDef

USAGE = "convert [OPTIONS] COMPONENT [ARGUMENTS]"
HELP = """\
Print the job file that gives the same app as a component does with these
arguments: what was launched by hand can be committed, planned and applied."""
EXAMPLES = """\
  launcher convert utils.sh --num_replicas 2 -- echo hello > hello.launcher.yaml
  launcher convert --name train ./train.py:train --lr 0.1 > train.launcher.yaml"""

_DEFAULTS = {"num_replicas": 1, "max_retries": 0, "retry_policy": "application"}


def add_arguments(parser: Any) -> None:
    parser.add_argument("component", metavar="COMPONENT", help="its name, or file.py:function")
    parser.add_argument("--name", metavar="NAME", help="of the job (default: the app's name)")
    parser.add_argument("-s", "--scheduler", metavar="SCHEDULER", help="where the job is to run")


def divide(words: Sequence[str], declared: Any) -> tuple[Sequence[str], Sequence[str] | None]:
    """The words of this command, and those of the component."""
    from launcher.cli.component_words import divide

    return divide(words, declared, always=True)


def run(args: Any, console: Console) -> int:
    from launcher.cli.component_words import made

    app = made(args.component, args.component_args or (), console)
    if app is None:
        return 0
    text = _text(app, args)
    _prove(text, app, args.component)
    console.print(text, end="")
    return 0


def _text(app: AppDef, args: Any) -> str:
    from launcher.cli.render.job_text import role_fields
    from launcher.cli.starter import label
    from launcher.specs.yamltext import to_yaml

    fields: dict[str, Any] = {"version": 1, "name": args.name or label(app.name)}
    if args.scheduler:
        fields["scheduler"] = args.scheduler
    fields["roles"] = {role.name: _said(role_fields(role)) for role in app.roles}
    if app.metadata:
        fields["metadata"] = dict(app.metadata)
    return _canonical(to_yaml(fields, sort=False))  # the order of roles says whose host rank 0 is on


def _said(role: dict[str, Any]) -> dict[str, Any]:
    """Without what is so unless somebody says otherwise."""
    return {key: value for key, value in role.items() if _DEFAULTS.get(key) != value}


def _canonical(text: str) -> str:
    """As `launcher fmt` writes it; a text that is no job file stays, for the proof to say what is wrong."""
    from launcher.errors import LauncherError
    from launcher.jobfile.formatting import format_text
    from launcher.jobfile.parse import parse
    from launcher.jobfile.source import Source, source_of

    source = source_of("job.launcher.yaml", text.encode())
    if not isinstance(source, Source):
        return text
    try:
        return format_text(source, parse(source))
    except LauncherError:
        return text


def _prove(text: str, app: AppDef, component: str) -> None:
    """Raises LauncherError when the text does not compile to the same app, but for its name."""
    import os
    import tempfile
    from dataclasses import replace

    from launcher.errors import JobFileError, LauncherError
    from launcher.jobfile import load_job

    with tempfile.TemporaryDirectory(prefix="launcher-convert-") as folder:
        path = os.path.join(folder, "job.launcher.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        hint = f"write `component: {component}` and `args:` into the job file instead"
        try:
            same = load_job(path).app
        except JobFileError as error:
            why = "; ".join(found.message for found in error.diagnostics)
            raise LauncherError(f"no job file can say what {component} makes: {why}", hint=hint) from error
    if replace(same, name=app.name) != app:
        raise LauncherError(f"no job file of roles gives what {component} makes", hint=hint)
