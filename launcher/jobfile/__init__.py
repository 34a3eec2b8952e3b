"""Job files: from text to launches, or to diagnostics that name file, line and remedy.

Parts, each of which imports only earlier ones: `diagnostic` (problems and their places), `text` (bytes →
values with positions), `model` (the language), `messages` (problems in words), `compile` (values → launches),
and beside it `schema` and `format`. In `compile`, `files`, `one_file` and `one_job` run the phases in order:
`discover`, `variants`, `variables`, `matrix`, `references`, the models, `build`; `compiled` keeps outcomes.
The public names are loaded on first use.
"""

from __future__ import annotations

from launcher import hand_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.jobfile.compile.compiled import Compiled
    from launcher.jobfile.compile.files import Environment, compile_files, load_job, load_jobs
    from launcher.jobfile.compile.needs import declared_elsewhere
    from launcher.jobfile.compile.project import Checkout
    from launcher.jobfile.diagnostic import Diagnostic, Related, Span, job_file_error, render
    from launcher.jobfile.schema.job import job_schema

__all__ = [
    "Checkout",
    "Compiled",
    "Diagnostic",
    "Environment",
    "Related",
    "Span",
    "compile_files",
    "declared_elsewhere",
    "job_file_error",
    "job_schema",
    "load_job",
    "load_jobs",
    "render",
]

_HOMES = {
    "Checkout": "compile.project",
    "Compiled": "compile.compiled",
    "Environment": "compile.files",
    "compile_files": "compile.files",
    "load_job": "compile.files",
    "load_jobs": "compile.files",
    "declared_elsewhere": "compile.needs",
    "Diagnostic": "diagnostic",
    "Related": "diagnostic",
    "Span": "diagnostic",
    "job_file_error": "diagnostic",
    "render": "diagnostic",
    "job_schema": "schema.job",
}

__getattr__, __dir__ = hand_on(__name__, _HOMES)
