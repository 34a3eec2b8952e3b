"""`launcher compile`: show the resolved jobs of job files, and the origin of each value."""

from __future__ import annotations

from json import dumps
from typing import Any

from launcher.cli import jobs
from launcher.cli.console import Console
from launcher.cli.render.job_text import job_fields, job_text, origins
from launcher.jobfile import Compiled
from launcher.specs import Launch, digest, document

USAGE = "compile [FILE…] [OPTIONS]"
HELP = """\
Show the jobs that job files resolve to once targets, defaults, the matrix and
variables are applied, with the origin of each value: a line of the file, the
target's overlay, a variable and where it was set, launcher.toml, or a default.

Macros that are known only at run time, such as $<app_id>, stay as written."""
EXAMPLES = """\
  launcher compile jobs/train.launcher.yaml --target dev
  launcher compile jobs/train.launcher.yaml --var epochs=5
  launcher compile --json jobs/ | jq '.jobs[].digest'"""


def add_arguments(parser: Any) -> None:
    jobs.add_arguments(parser, is_kept=False)
    parser.add_argument(
        "--json", action="store_true", help="print the jobs and the origins of their values as JSON"
    )


def run(args: Any, console: Console) -> int:
    result = jobs.compiled(args.files, args)
    launches = jobs.accepted(result, args, console)
    if args.json:
        found = [_as_json(launch, result) for launch in launches]
        console.print(dumps({"version": 1, "jobs": found}, indent=2, ensure_ascii=False))
    else:
        console.print("\n".join(_as_text(launch, result) for launch in launches), end="")
    return 0


def _as_text(launch: Launch, result: Compiled) -> str:
    return f"# {launch.key}  {digest(document(launch))}\n{job_text(launch, result.traces[launch.key])}"


def _as_json(launch: Launch, result: Compiled) -> dict[str, Any]:
    return {
        "key": launch.key._asdict(),
        "digest": digest(document(launch)),
        "job": job_fields(launch),
        "origins": origins(launch, result.traces[launch.key]),
    }
