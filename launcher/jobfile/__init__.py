"""Job files: from text to launches, or to diagnostics that name file, line and remedy.

The parts, each of which imports only earlier parts: `diagnostic` (problems and their places), `text` (bytes →
values with positions), `model` (the language), `messages` (problems in words), `compile` (values → launches),
and beside it `schema` and `format`. In `compile`, `files`, `one_file` and `one_job` run the phases in order:
`discover`, `variants`, `variables`, `matrix`, `references`, the models, `build`; `compiled` keeps outcomes.
The public names are loaded on first use.
"""

from __future__ import annotations

from launcher import hand_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.jobfile.compile.compiled import Compiled as Compiled
    from launcher.jobfile.compile.files import (
        Environment as Environment,
        compile_files as compile_files,
        load_job as load_job,
        load_jobs as load_jobs,
    )
    from launcher.jobfile.compile.needs import declared_elsewhere as declared_elsewhere
    from launcher.jobfile.compile.project import Checkout as Checkout
    from launcher.jobfile.diagnostic import (
        Diagnostic as Diagnostic,
        Related as Related,
        Span as Span,
        job_file_error as job_file_error,
        render as render,
    )
    from launcher.jobfile.schema.files import job_schema as job_schema

__getattr__, __dir__, __all__ = hand_on(
    __name__,
    {
        "compile.compiled": "Compiled",
        "compile.files": "Environment compile_files load_job load_jobs",
        "compile.needs": "declared_elsewhere",
        "compile.project": "Checkout",
        "diagnostic": "Diagnostic Related Span job_file_error render",
        "schema.files": "job_schema",
    },
)
