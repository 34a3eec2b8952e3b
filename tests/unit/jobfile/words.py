"""Functions for the job file tests: compile a text, and return each result as one line."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from launcher.jobfile import Compiled, Environment, compile_files
from launcher.specs import Launch, runopts

HEAD = "version: 1\nname: job\n"
ROLES = "roles: {main: {entrypoint: env}}\n"


def local_options() -> runopts:
    opts = runopts()
    opts.add("log_dir", str, "folder of the logs")
    opts.add("prepend_cwd", bool, "put the folder first on PATH", default=False)
    opts.add("timeout_s", int, "the app fails past it")
    opts.add("grace_s", float, "time between TERM and KILL", default=10.0)
    opts.add("copy_env", list[str], "names to take over")
    return opts


def queue_options() -> runopts:
    opts = runopts()
    opts.add("partition", str, "where to queue", required=True)
    return opts


SCHEDULERS = {"local_cwd": local_options, "local_dir": local_options, "queue": queue_options}


def compile_text(
    folder: Path,
    text: str | bytes,
    *,
    name: str = "job.launcher.yaml",
    variables: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    target: str | None = None,
    placeholders: bool = False,
    var_files: Sequence[str] = (),
    allow_dirty: bool = False,
) -> Compiled:
    """Write `text` to a file in `folder` and compile it."""
    data = text if isinstance(text, bytes) else text.encode()
    (folder / name).write_bytes(data)
    return compile_files(
        [name],
        variables=variables,
        target=target,
        placeholders=placeholders,
        var_files=var_files,
        allow_dirty=allow_dirty,
        environment=Environment(schedulers=SCHEDULERS, cwd=str(folder), environ=environ or {}),
    )


def launch(folder: Path, text: str, **options: Any) -> Launch:
    """Return the launch of a text that must be right."""
    compiled = compile_text(folder, text, **options)
    assert not compiled.errors, "\n".join(lines(compiled))
    (only,) = compiled.launches
    return only


def launches(folder: Path, text: str, **options: Any) -> dict[str, Launch]:
    """Return the launches of a text that must be right, by job."""
    compiled = compile_text(folder, text, **options)
    assert not compiled.errors, "\n".join(lines(compiled))
    return {launch.key.job: launch for launch in compiled.launches}


def lines(compiled: Compiled) -> list[str]:
    """Return `line:column code message` for each diagnostic."""
    return [
        f"{found.span.line}:{found.span.column} {found.code} {found.message}" if found.span else found.message
        for found in compiled.diagnostics
    ]


def places(compiled: Compiled) -> list[str]:
    """Return `line:column code` for each diagnostic."""
    return [
        f"{found.span.line}:{found.span.column} {found.code}" if found.span else found.code
        for found in compiled.diagnostics
    ]


def labels(compiled: Compiled) -> list[str]:
    """Return the remedy of each diagnostic."""
    return [found.label for found in compiled.diagnostics]


def git(folder: Path, *args: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    got = subprocess.run(["git", *who, *args], cwd=folder, check=True, capture_output=True, text=True)
    return got.stdout.strip()
