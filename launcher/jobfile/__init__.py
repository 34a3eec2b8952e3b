"""Job files: from text to launches, or to diagnostics that name file, line and remedy.

One phase, one module: `discover` (paths → files) → `source` (bytes → text) → `yaml`, `toml` (text → values
with positions) → `variants` (`targets`, `defaults`, laid over by `overlay`) → `variables` → `matrix` →
`references` → `model` → `build` → `specs.check`; `compile` (all files), `one_file` (all targets) and
`one_job` run them in this order. `collector` gathers problems by field path, `wording` says what pydantic
found, `trace` knows afterwards where each value came from.
The public names are loaded on first use.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.jobfile.compile import Compiled, Environment, compile_files, load_job, load_jobs
    from launcher.jobfile.diagnostics import Diagnostic, Related, Span, job_file_error, render
    from launcher.jobfile.schema import job_schema

__all__ = [
    "Compiled",
    "Diagnostic",
    "Environment",
    "Related",
    "Span",
    "compile_files",
    "job_file_error",
    "job_schema",
    "load_job",
    "load_jobs",
    "render",
]

_HOMES = {
    "Compiled": "compile",
    "Environment": "compile",
    "compile_files": "compile",
    "load_job": "compile",
    "load_jobs": "compile",
    "Diagnostic": "diagnostics",
    "Related": "diagnostics",
    "Span": "diagnostics",
    "job_file_error": "diagnostics",
    "render": "diagnostics",
    "job_schema": "schema",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'launcher.jobfile' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"launcher.jobfile.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
