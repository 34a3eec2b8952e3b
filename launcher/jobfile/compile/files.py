"""Job files → launches. All problems of all files are found in one go; none of them is raised."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from launcher.components.calls import Calls, are_allowed
from launcher.jobfile.compile.discover import FoundFile, find_files
from launcher.jobfile.compile.inputs import Folders
from launcher.jobfile.compile.needs import (
    Neighbours,
    Reach,
    out_of_reach,
    resolve_elsewhere,
    resolve_needs,
    unknown_needs,
)
from launcher.jobfile.compile.one_file import FileResult, compile_document
from launcher.jobfile.compile.one_job import Work
from launcher.jobfile.compile.options import Rules, Schedulers
from launcher.jobfile.compile.project import Checkout, Homes
from launcher.jobfile.compile.trace import Trace
from launcher.jobfile.compile.variables import Inputs, VarFiles, read_var_files
from launcher.jobfile.diagnostics.diagnostic import Diagnostic, in_order, job_file_error
from launcher.jobfile.messages.names import listing, suggest
from launcher.jobfile.text.parse import parse
from launcher.jobfile.text.source import Source, leads_out, read_source, source_of
from launcher.specs import JobKey, Launch


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The inputs of compiling that lie outside the files.

    Attributes:
        schedulers: name → its run options. None: unknown here; `cfg` is checked when planning.
        rules: what else a scheduler refuses. None: unknown here; the plan reports it.
        reach: whose output folders a scheduler can read. None: as for `rules`.
        cwd: where relative paths begin; "" is the current directory.
        environ: for variables with `from_env`; None is the process environment.
        components: whether job files may call components that are not built in; None is what
            LAUNCHER_COMPONENTS says.
        reads_environ: whether variables may take values from the environment.
        checkout: where the files are those of another commit.
    """

    schedulers: Schedulers | None = None
    rules: Rules | None = None
    reach: Reach | None = None
    cwd: str = ""
    environ: Mapping[str, str] | None = None
    components: bool | None = None
    reads_environ: bool = True
    checkout: Checkout | None = None


@dataclass(frozen=True, slots=True)
class Compiled:
    """The outcome: the launches of the files without errors, and every diagnostic in file order."""

    launches: tuple[Launch, ...]
    diagnostics: tuple[Diagnostic, ...]
    traces: Mapping[JobKey, Trace] = field(default_factory=dict, compare=False, repr=False)
    """Where the values of each launch come from."""
    prunes: bool = False
    """Whether `launcher ci` stops apps that no file declares any more."""

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
    var_files: Sequence[str] = (),
    target: str | None = None,
    environment: Environment | None = None,
    placeholders: bool = False,
    allow_dirty: bool = False,
    neighbours: bool = False,
) -> Compiled:
    """Compile job files, and every job file below the directories among `paths`. All targets are checked.

    A need that none of these files declares is looked for in the other job files of the project, since it may
    name a matrix: without errors and `placeholders`, the needs of the launches are names of jobs.

    Args:
        variables: values of `vars` by name: text as typed on a command line, or of the variable's type.
        var_files: files with such values; `variables` win over them, later files over earlier ones.
        target: the overlay to take; None is the one that launcher.toml names, else no overlay.
        placeholders: stand in for variables without a value, as `validate` does. The launches are then good
            for nothing but counting them; their origin is not looked up, their inputs are not read.
        allow_dirty: `$<git.sha>` may stand for a commit that files differ from, marked with `-dirty`.
        neighbours: warn of needs that none of these files declares, and no other job file of the project.

    Raises CommandError when git refuses to answer; problems of the files are in the result.
    """
    environment = environment or Environment()
    cwd = os.path.abspath(environment.cwd or os.getcwd())
    environ = os.environ if environment.environ is None else environment.environ
    values = read_var_files(var_files, cwd)
    inputs = Inputs(
        variables or {}, environ if environment.reads_environ else None, placeholders, values.values
    )
    calls = Calls(are_allowed(os.environ) if environment.components is None else environment.components)
    homes = Homes(
        cwd,
        not placeholders,
        allow_dirty,
        environment.schedulers,
        calls.is_allowed,
        environment.checkout,
    )
    folders = Folders(not placeholders)
    files, missing = find_files(paths, cwd)
    seen: dict[str, list[Diagnostic]] = {}

    def work(path: str) -> Work:
        home = homes.of(os.path.dirname(path))
        if home.problems:
            seen.setdefault(home.problems[0].file, list(home.problems))
        return Work(path, inputs, target, environment.schedulers, home, folders, environment.rules, calls)

    with calls:
        compiled = [_compile_file(found, work) for found in files]
    results = [result for result in compiled if result is not None]
    strangers = _undeclared(inputs.given, values, results, paths)
    twins = _duplicates(results)
    good = [result for result in results if id(result) not in twins]
    around = Neighbours(cwd, inputs, [found.path for found in files]) if neighbours else None
    launches, of_needs = _with_needs(good, around, environment.reach)
    diagnostics = [*missing, *values.problems, *strangers]
    for problems in seen.values():
        diagnostics += in_order(problems)
    for result in results:
        more = [each for launch in result.launches for each in of_needs.get(launch.key, ())]
        diagnostics += in_order([*result.problems, *twins.get(id(result), more)])
    traces = {key: trace for result in good for key, trace in result.traces.items()}
    if not placeholders and not any(each.severity == "error" for each in diagnostics):
        launches = resolve_elsewhere(launches, Neighbours(cwd, replace(inputs, placeholders=True)))
    return Compiled(tuple(launches), tuple(diagnostics), traces, homes.prunes)


def _with_needs(
    results: Sequence[FileResult], neighbours: Neighbours | None, reach: Reach | None
) -> tuple[list[Launch], Mapping[JobKey, Sequence[Diagnostic]]]:
    """The launches of files, their needs resolved; and what is wrong with the needs, by job.

    Without the jobs of a file whose needs close a circle, or that reads an output folder out of its reach.
    """
    written = [launch for result in results for launch in result.launches]
    if not any(launch.needs for launch in written):
        return written, {}
    traces = {key: trace for result in results for key, trace in result.traces.items()}
    launches, circles = resolve_needs(written)
    found: dict[JobKey, list[Diagnostic]] = {}
    for circle in circles:
        found.setdefault(circle.steps[0][0].key, []).append(circle.diagnostic(traces))
    if neighbours is not None:
        for launch, warning in unknown_needs(written, traces, neighbours):
            found.setdefault(launch.key, []).append(warning)
    wrong = {(launch.root, launch.file) for circle in circles for launch, _ in circle.steps}
    for launch, error in out_of_reach(written, traces, reach, neighbours):
        found.setdefault(launch.key, []).append(error)
        wrong.add((launch.root, launch.file))
    return [launch for launch in launches if (launch.root, launch.file) not in wrong], found


def load_job(
    path: str | os.PathLike[str],
    *,
    vars: Mapping[str, Any] | None = None,
    target: str | None = None,
    schedulers: Schedulers | None = None,
) -> Launch:
    """Compile one job file that declares one job.

    Args:
        vars: values of the file's variables, by name; text is read as on the command line.
        target: one of the file's `targets`; without it the file as it stands.
        schedulers: scheduler name → function that gives its run options; without it those that are installed.

    Raises JobFileError, with `.diagnostics`, when the file is wrong or makes more than one job.
    """
    launches = load_jobs(path, vars=vars, target=target, schedulers=schedulers)
    if len(launches) != 1:
        holds = "directory holds" if os.path.isdir(path) else "file makes"
        message = f"the {holds} {len(launches)} jobs, want one"
        hint = "load_jobs gives all of them"
        raise job_file_error(
            [Diagnostic(file=os.fspath(path), span=None, code="invalid-value", message=message, hint=hint)]
        )
    return launches[0]


def load_jobs(
    *paths: str | os.PathLike[str],
    vars: Mapping[str, Any] | None = None,
    target: str | None = None,
    schedulers: Schedulers | None = None,
) -> list[Launch]:
    """Compile every job of job files, and of all job files below the directories among `paths`.

    Args:
        vars, target, schedulers: as `load_job` takes them.

    Raises JobFileError, with `.diagnostics`, when a file is wrong, or when there is none.
    """
    files = [os.fspath(path) for path in paths]
    environment = Environment(schedulers=schedulers)
    compiled = compile_files(files, variables=vars, target=target, environment=environment)
    compiled.raise_for_errors()
    return list(compiled.launches)


def compile_text(
    text: str,
    path: str,
    schedulers: Schedulers | None = None,
    *,
    rules: Rules | None = None,
    placeholders: bool = False,
) -> Compiled:
    """Compile a job file that is not on disk yet, as if it stood at `path`, which is absolute.

    What it declares as inputs has to be there, and is not read. Raises CommandError when git refuses.

    Args:
        rules: what else a scheduler refuses.
        placeholders: stand in for variables without a default, and read no environment.
    """
    folder = os.path.dirname(path)
    source = source_of(os.path.basename(path), text.encode())
    if isinstance(source, Diagnostic):
        return Compiled((), (source,))
    home = Homes(folder, schedulers=schedulers).of(folder)
    with Calls(are_allowed(os.environ)) as calls:
        inputs = Inputs({}, {} if placeholders else os.environ, placeholders)
        work = Work(path, inputs, None, schedulers, home, Folders(is_read=False), rules, calls)
        result = compile_document(parse(source), work)
    return Compiled(result.launches, tuple(in_order([*home.problems, *result.problems])))


def _compile_file(found: FoundFile, work: Callable[[str], Work]) -> FileResult | None:
    """The result of one file; None where a walk has found it, and it was removed since."""
    source: Source | Diagnostic | None = None
    if not os.path.lexists(found.path):
        source = read_source(found.file, found.path)  # says so; unless the file was made this very moment
    if not isinstance(source, Diagnostic):
        job = work(found.path)
        source = leads_out(found.file, found.path, os.path.realpath(job.home.root))
        source = source or read_source(found.file, found.path)
    if isinstance(source, Diagnostic):
        # Asked of the error, since a file of that name may be there again.
        is_gone = found.walked and source.code == "no-such-file" and not os.path.islink(found.path)
        return None if is_gone else FileResult(problems=(source,))
    return compile_document(parse(source), job)


def _undeclared(
    given: Mapping[str, Any], files: VarFiles, results: Sequence[FileResult], paths: Sequence[str]
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
    ] + files.undeclared(known)


def _duplicates(results: Sequence[FileResult]) -> dict[int, tuple[Diagnostic, ...]]:
    """Two files with one job key: the later one is the error, and names the first."""
    first: dict[JobKey, FileResult] = {}
    found: dict[int, tuple[Diagnostic, ...]] = {}
    for result in results:
        for launch in result.launches:
            known = first.setdefault(launch.key, result)
            if known is not result and id(result) not in found and known.source and result.source:
                found[id(result)] = (_twin(launch.key, known.source, result.source),)
    return found


def _twin(key: JobKey, known: Source, source: Source) -> Diagnostic:
    related = known.related(*_name_range(known), "the other one is here")
    message = f"job `{key.job}` of project `{key.project}` is declared in {known.file} as well"
    hint = "rename one, or give it another `project`"
    return source.diagnostic(*_name_range(source), "duplicate-job", message, hint=hint, related=(related,))


def _name_range(source: Source) -> tuple[int, int]:
    return parse(source).value_range(("name",))
