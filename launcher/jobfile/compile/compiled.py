"""The outcome of compiling job files."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from launcher.jobfile.compile.one_job import Trace
    from launcher.jobfile.diagnostics.diagnostic import Diagnostic
    from launcher.specs.jobkey import JobKey
    from launcher.specs.launch import Launch


class Compiled(NamedTuple):
    """The outcome: the launches of the files without errors, and every diagnostic in file order."""

    launches: tuple[Launch, ...]
    diagnostics: tuple[Diagnostic, ...]
    traces: Mapping[JobKey, Trace] = MappingProxyType({})
    """Where the values of each launch come from. Empty for a kept outcome."""
    prunes: bool = False
    """Whether `launcher ci` stops apps that no file declares any more."""
    parents: int = 0
    """How many of the files are only parents of others, and no jobs."""
    left_out: tuple[str, ...] = ()
    """The files with jobs that lack the requested target."""
    jobs: int = 0
    """The number of launches; a kept outcome of `placeholders` has no launches themselves."""

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        return tuple(diagnostic for diagnostic in self.diagnostics if diagnostic.severity == "error")

    def raise_for_errors(self) -> None:
        """Raise JobFileError when there is an error."""
        if self.errors:
            from launcher.jobfile.diagnostics.diagnostic import job_file_error

            raise job_file_error(self.diagnostics)
