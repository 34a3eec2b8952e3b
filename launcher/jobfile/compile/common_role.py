"""`defaults.role` checked by itself: what every role says anew shows in none of them, and may be wrong."""

from __future__ import annotations

from pydantic import ValidationError

from launcher.jobfile.compile.references import References
from launcher.jobfile.diagnostics.diagnostic import Diagnostic
from launcher.jobfile.messages.wording import report
from launcher.jobfile.model.base import VERSION
from launcher.jobfile.model.fields import ROLE
from launcher.jobfile.model.job_file import JobFile
from launcher.jobfile.text.document import Path

_AT: Path = ("defaults", "role")


def check_common_role(references: References) -> list[Diagnostic]:
    """What is wrong with the role in the `defaults` of the references' document."""
    problems = references.problems
    given = (problems.document.value or {})["defaults"]["role"]
    role = references.resolve(given, ROLE, _AT)
    job = {"version": VERSION, "name": "job", "roles": {"role": {"entrypoint": "program", **role}}}
    try:
        # As part of a job: its model is built already, one of the role alone would have to be.
        JobFile.model_validate(job)
    except ValidationError as error:
        found = error.errors(include_url=False)
        report([{**each, "loc": each["loc"][2:]} for each in found], role, problems, _AT)
    return problems.found
