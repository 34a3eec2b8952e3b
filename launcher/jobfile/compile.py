"""Job files → launches. All problems of all files are found in one go; none of them is raised."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.jobfile.diagnostics import Diagnostic, in_order, job_file_error
from launcher.jobfile.discover import Found, find_files
from launcher.jobfile.document import Document
from launcher.jobfile.names import listing, suggest
from launcher.jobfile.one_file import FileResult, compile_document
from launcher.jobfile.options import Schedulers
from launcher.jobfile.project import Homes
from launcher.jobfile.source import Source, read_source
from launcher.jobfile.variables import Inputs
from launcher.specs import DEFAULT_TARGET, JobKey, Launch


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What compiling needs from outside the files.

    Attributes:
        schedulers: name → its run options. None: nobody knows them here, `cfg` is checked when planning.
        cwd: where relative paths begin; "" is the current directory.
        environ: for variables with `from_env`; None is the process environment.
    """

    schedulers: Schedulers | None = None
    cwd: str = ""
    environ: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Compiled:
    """The outcome: the launches of the files without errors, and every diagnostic in file order."""

    launches: tuple[Launch, ...]
    diagnostics: tuple[Diagnostic, ...]

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        return tuple(diagnostic for diagnostic in self.diagnostics if diagnostic.severity == "error")

    def raise_for_errors(self) -> None:
        """Raise JobFileError when there is an error."""
        if self.errors:
            raise job_file_error(self.diagnostics)


def compile_files(
    paths: Sequence[str],
    *,
    variables: Mapping[str, Any] | None = None,
    target: str = DEFAULT_TARGET,
    environment: Environment | None = None,
    placeholders: bool = False,
) -> Compiled:
    """Compile job files, and every job file below the directories among `paths`.

    Args:
        variables: values of `vars` by name: text as typed on a command line, or of the variable's type.
        placeholders: stand in for variables without a value, as `validate` does. The launches are then good
            for nothing but counting them; their origin is not looked up.

    Raises CommandError when git refuses to answer; problems of the files are in the result.
    """
    environment = environment or Environment()
    cwd = os.path.abspath(environment.cwd or os.getcwd())
    environ = os.environ if environment.environ is None else environment.environ
    inputs = Inputs(variables or {}, environ, placeholders)
    homes = Homes(cwd, with_origin=not placeholders)
    files, missing = find_files(paths, cwd)
    seen: dict[tuple[str, ...], list[Diagnostic]] = {}
    results = [_compile_file(found, inputs, target, environment.schedulers, homes, seen) for found in files]
    strangers = _undeclared(inputs.given, results, paths)
    twins = _duplicates(results)
    diagnostics = [*missing, *strangers]
    for problems in seen.values():
        diagnostics += in_order(problems)
    for result in results:
        diagnostics += in_order([*result.problems, *twins.get(id(result), ())])
    launches = tuple(
        result.launch for result in results if result.launch is not None and id(result) not in twins
    )
    return Compiled(launches, tuple(diagnostics))


def load_job(
    path: str | os.PathLike[str],
    *,
    vars: Mapping[str, Any] | None = None,
    target: str = DEFAULT_TARGET,
    schedulers: Schedulers | None = None,
) -> Launch:
    """Compile one job file.

    Raises JobFileError, with `.diagnostics`, when the file is wrong.
    """
    compiled = compile_files(
        [os.fspath(path)], variables=vars, target=target, environment=Environment(schedulers=schedulers)
    )
    compiled.raise_for_errors()
    if len(compiled.launches) != 1:
        hint = "use one of its files, or compile_files for all of them"
        message = f"the directory holds {len(compiled.launches)} job files, want one"
        raise job_file_error(
            [Diagnostic(file=os.fspath(path), span=None, code="invalid-value", message=message, hint=hint)]
        )
    return compiled.launches[0]


def _compile_file(
    found: Found,
    inputs: Inputs,
    target: str,
    schedulers: Schedulers | None,
    homes: Homes,
    seen: dict[tuple[str, ...], list[Diagnostic]],
) -> FileResult:
    source = read_source(found.file, found.path)
    if isinstance(source, Diagnostic):
        return FileResult(problems=(source,))
    home = homes.of(os.path.dirname(found.path))
    if home.problems:
        seen.setdefault((home.problems[0].file,), list(home.problems))
    document = _parse(source)
    return compile_document(document, found.path, inputs, target, schedulers, home)


def _parse(source: Source) -> Document:
    # Imported by format: a TOML file does not wait for the YAML library.
    if source.format == "toml":
        from launcher.jobfile.toml import parse_toml

        return parse_toml(source)
    from launcher.jobfile.yaml import parse_yaml

    return parse_yaml(source)


def _undeclared(
    given: Mapping[str, Any], results: Sequence[FileResult], paths: Sequence[str]
) -> list[Diagnostic]:
    """Variables that were given a value and that no file declares."""
    if not results or any(result.declared is None for result in results):
        return []  # a file that could not be read may declare it
    known = sorted({name for result in results for name in result.declared or ()})
    return [
        Diagnostic(
            file=paths[0] if len(paths) == 1 else f"{len(results)} files",
            span=None,
            code="unknown-variable",
            message=f"no variable `{name}` is declared, and --var gives it a value",
            label=suggest(name, known),
            hint=listing("declared", known),
        )
        for name in given
        if name not in known
    ]


def _duplicates(results: Sequence[FileResult]) -> dict[int, tuple[Diagnostic, ...]]:
    """Two files with one job key: the later one is the error, and names the first."""
    first: dict[JobKey, FileResult] = {}
    found: dict[int, tuple[Diagnostic, ...]] = {}
    for result in results:
        if result.launch is None or result.source is None:
            continue
        known = first.setdefault(result.launch.key, result)
        if known is result or known.source is None:
            continue
        key = result.launch.key
        related = known.source.related(*_name_range(known.source), "the other one is here")
        message = f"job `{key.job}` of project `{key.project}` is declared in {known.source.file} as well"
        hint = "rename one, or give it another `project`"
        at = _name_range(result.source)
        found[id(result)] = (
            result.source.diagnostic(*at, "duplicate-job", message, hint=hint, related=(related,)),
        )
    return found


def _name_range(source: Source) -> tuple[int, int]:
    return _parse(source).value_range(("name",))
