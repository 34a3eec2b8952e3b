"""Output folders: where a job leaves files for the jobs that need it. One folder per edition of a job.

A job has an output folder when its roles mention it, as `$<output_dir>` or LAUNCHER_OUTPUT_DIR, or its file
has `output: true`. Local jobs always have one.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from launcher.specs.app import AppDef
from launcher.specs.attempt import Attempt
from launcher.specs.check import Problem, macro_texts, macros_in
from launcher.specs.jobkey import JobKey, attempt_id
from launcher.specs.macros import OUTPUT_DIR, job_of_output

OUTPUT_VARIABLE = "LAUNCHER_OUTPUT_DIR"
NEEDS_VARIABLE = "LAUNCHER_NEEDS"
SYMBOLIC_OUTPUT = f"$<{OUTPUT_DIR}>"
"""The value of OUTPUT_VARIABLE in a request whose output folder is not known yet."""

_LONGEST = 128 * 1024 - len(f"{NEEDS_VARIABLE}=\0")  # bytes; the kernel takes no longer string (execve(2))


class Reference(NamedTuple):
    """A reference of an app to an output folder: of a job that it needs, or its own (then `job` is "")."""

    path: tuple[str | int, ...]
    written: str
    job: str


def references(app: AppDef) -> Iterator[Reference]:
    """Every `$<output_dir>` and `$<needs.NAME.output_dir>` of the app, in the order of its texts."""
    for role in app.roles:
        for path, name, written in macros_in(role, OUTPUT_DIR):
            job = "" if name == OUTPUT_DIR else job_of_output(name)
            if job is not None:
                yield Reference(path, written, job)


def has_output(app: AppDef) -> bool:
    """Whether the app asks for an output folder of its own."""
    return app.output or any(not each.job for each in references(app)) or mentions(OUTPUT_VARIABLE, app)


def mentions(variable: str, app: AppDef) -> bool:
    """Whether the app's roles mention a variable, such as the list of needs with their folders."""
    return any(variable in text for role in app.roles for _, text in macro_texts(role))


def jobs_read(app: AppDef) -> list[str]:
    """The jobs whose output folders the app reads, sorted."""
    return sorted({each.job for each in references(app) if each.job})


def unneeded(named: Iterable[Reference], needs: Collection[str]) -> list[Problem]:
    """Return the references among `named` to output folders of jobs that are not among `needs`."""
    return [
        Problem(path, "unknown-reference", f"`{written}`: job `{job}` is not among this job's `needs`")
        for path, written, job in named
        if job and job not in needs
    ]


def own_output(attempt: Attempt) -> str:
    """The name of the attempt's output folder: the app id of the attempt that began its edition."""
    return attempt_id(attempt.key, attempt.edition)


def read_outputs(attempt: Attempt) -> Mapping[str, str]:
    """Return job → the name of the output folder, for each need that the attempt uses."""
    return {need.job: attempt_id(attempt.key._replace(job=need.job), need.edition) for need in attempt.needs}


def output_macro(job: str = "") -> str:
    """The name of the macro for the output folder of a need, or of the job itself."""
    return f"needs.{job}.{OUTPUT_DIR}" if job else OUTPUT_DIR


def needs_variable(jobs: Iterable[str], folders: Mapping[str, str]) -> dict[str, str]:
    """The variable that lists the needs of a job: JSON, `[{"job": …, "output_dir": …}, …]`, sorted by job.

    Returns {} without needs, and for a list that is too long for a variable.

    Args:
        jobs: the names of the needs.
        folders: job → its output folder as programs see it; a job without one gets null.
    """
    listed = [{"job": job, "output_dir": folders.get(job)} for job in sorted(jobs)]
    text = json.dumps(listed)
    return {NEEDS_VARIABLE: text} if listed and len(text) <= _LONGEST else {}


def job_of(output: str, keys: Iterable[JobKey]) -> JobKey | None:
    """Return the job among `keys` that owns an output folder; None when none of them does."""
    number = output.rpartition("-")[0].rpartition("-")[2]
    if not number.isdecimal():
        return None
    return next((key for key in keys if attempt_id(key, int(number)) == output), None)
