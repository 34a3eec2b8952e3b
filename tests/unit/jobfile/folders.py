"""Functions for the tests of sharing: write the files of a folder, compile them together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from launcher.jobfile import Compiled, Environment, compile_files, render
from launcher.specs import Launch
from tests.unit.jobfile.words import SCHEDULERS

JOB = "== job.launcher.yaml\nversion: 1\nname: job\n"
ROLE = "roles: {main: {entrypoint: x}}\n"
CHILD = f"{JOB}extends: base.launcher.yaml\n{ROLE}"
BASE = "== base.launcher.yaml\nversion: 1\nabstract: true\n"
BASE_TOML = "== base.launcher.toml\nversion = 1\nabstract = true\n"


def write(folder: Path, texts: str) -> None:
    """Write files: each begins with a line `== NAME`."""
    for part in texts.split("== ")[1:]:
        name, _, text = part.partition("\n")
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def compiled(folder: Path, *paths: str, **options: Any) -> Compiled:
    """Compile these job files of a folder, or all of its job files."""
    components, reads = options.pop("components", None), options.pop("reads_environ", True)
    environment = Environment(
        schedulers=SCHEDULERS, cwd=str(folder), environ=options.pop("environ", {}), components=components,
        reads_environ=reads,
    )  # fmt: skip
    return compile_files(list(paths) or ["."], environment=environment, **options)


def launches(folder: Path, *paths: str, **options: Any) -> dict[str, Launch]:
    """Return the launches of files that must be right, by job."""
    result = compiled(folder, *paths, **options)
    assert result.diagnostics == (), render(result.diagnostics)
    return {launch.key.job: launch for launch in result.launches}


def places(result: Compiled) -> list[str]:
    """Return `FILE:LINE:COLUMN CODE` for each diagnostic."""
    return [
        f"{found.file.removeprefix('./')}:{found.span.line}:{found.span.column} {found.code}"
        if found.span
        else f"{found.file.removeprefix('./')} {found.code}"
        for found in result.diagnostics
    ]
