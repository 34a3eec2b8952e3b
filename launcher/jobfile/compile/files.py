"""Compile job files to launches. All problems of all files are collected; none is raised."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any

from launcher import looks
from launcher.components.calls import Calls, are_allowed
from launcher.dataclass import dataclass, replace
from launcher.jobfile.compile.compiled import Compiled
from launcher.jobfile.compile.discover import FoundFile, find_files
from launcher.jobfile.compile.inputs import Folders
from launcher.jobfile.compile.layers import Parents
from launcher.jobfile.compile.needs import (
    Declaration,
    Neighbours,
    Reach,
    declaration,
    out_of_reach,
    resolve_elsewhere,
    resolve_needs,
    unknown_needs,
)
from launcher.jobfile.compile.one_file import FileResult, compile_document
from launcher.jobfile.compile.one_job import Trace, Work
from launcher.jobfile.compile.options import Rules, Schedulers
from launcher.jobfile.compile.project import Checkout, Homes
from launcher.jobfile.compile.variables import ENVIRON, Inputs, VarFiles, read_var_files
from launcher.jobfile.diagnostic import Diagnostic, Related, Span, in_order, job_file_error, of_whole_file
from launcher.jobfile.messages.collector import Collector, listing, suggest
from launcher.jobfile.text.document import Source, read_source, source_of
from launcher.jobfile.text.parse import parse
from launcher.looks import not_repeatable
from launcher.paths import of_encoding
from launcher.specs.jobkey import JobKey
from launcher.specs.launch import Launch
from launcher.specs.secret import hide, is_sensitive


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The inputs of compiling that lie outside the files.

    Attributes:
        schedulers: name → its run options. None: unknown here; `cfg` is checked when planning.
        rules: further rules of schedulers. None: unknown here; the plan reports violations.
        reach: tells which schedulers' output folders a scheduler can read. None: as for `rules`.
        cwd: where relative paths begin; "" is the current directory.
        environ: for variables with `from_env`; None is the process environment.
        components: whether job files may call components that are not built in; None: as LAUNCHER_COMPONENTS
            says.
        reads_environ: whether variables may take values from the environment.
        checkout: the folder of the files when they are another commit's.
    """

    schedulers: Schedulers | None = None
    rules: Rules | None = None
    reach: Reach | None = None
    cwd: str = ""
    environ: Mapping[str, str] | None = None
    components: bool | None = None
    reads_environ: bool = True
    checkout: Checkout | None = None


@contextmanager
def _no_collections() -> Iterator[None]:
    """Pause garbage collection: compiling makes no cycles, and each collection visits all launches."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


@_no_collections()
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
        placeholders: stand in for variables without a value, as `validate` does. Only the number of launches
            is then valid; their origin is not looked up, their inputs are not read.
        allow_dirty: accept `$<git.sha>` where files differ from the commit, marked with `-dirty`.
        neighbours: warn of needs that neither these files nor other job files of the project declare.

    Raises CommandError when git refuses to answer; problems of the files are in the result.
    """
    environment = environment or Environment()
    cwd = os.path.abspath(environment.cwd or looks.current_folder())
    environ = ENVIRON if environment.environ is None else environment.environ
    if any(is_sensitive(name) or hide(value) != value for name, value in (variables or {}).items()):
        not_repeatable()
    values = read_var_files(var_files, cwd)
    read = environ if environment.reads_environ else None
    inputs = Inputs(variables or {}, read, placeholders, values.values)
    calls = Calls(are_allowed(ENVIRON) if environment.components is None else environment.components)
    schedulers, checkout = environment.schedulers, environment.checkout
    homes = Homes(cwd, not placeholders, allow_dirty, schedulers, calls.is_allowed, checkout)
    folders = Folders(not placeholders)
    files, missing = find_files(paths, cwd)
    if not files:  # without files, whether to prune is still asked
        for folder in filter(looks.is_folder, (os.path.join(cwd, path) for path in paths)):
            homes.of(os.path.abspath(folder))
    parents = Parents(checkout is None, {found.path: found.file for found in files})
    seen: dict[str, list[Diagnostic]] = {}

    def work(path: str) -> Work:
        home = homes.of(os.path.dirname(path))
        if problems := home.config.problems:
            seen.setdefault(problems[0].file, list(problems))
        return Work(path, inputs, target, schedulers, home, folders, environment.rules, calls, parents)

    with calls:
        compiled = [_compile_file(found, work) for found in files]
    results = _without_twins([result for result in compiled if result is not None])
    strangers = _undeclared(inputs.given, values, results, homes.variables, paths)
    made = [each for result in results for each in result.made]
    traces = {launch.key: trace for launch, trace in made}
    around = Neighbours(cwd, inputs, [found.path for found in files], parents) if neighbours else None
    launches, of_needs = _with_needs([launch for launch, _ in made], traces, around, environment.reach)
    lacking = [each for result in results for each in result.lacking]
    left_out = tuple(dict.fromkeys(each.file for each in lacking)) if launches else ()
    diagnostics = [*missing, *values.problems, *strangers, *([] if left_out else lacking)]
    for problems in seen.values():
        diagnostics += in_order(problems)
    for result in _each_once(results):
        more = [each for launch in result.launches for each in of_needs.get(launch.key, ())]
        if more or result.problems:
            diagnostics += in_order([*result.problems, *more])
    if not (placeholders or launches or diagnostics):
        message = "the file is abstract: it is a parent of job files, and no job"
        hint = "give the files that extend it, or a folder"
        parents_alone = (result.file for result in results if result.is_abstract)
        diagnostics += [of_whole_file(file, "no-job-files", message, hint) for file in parents_alone]
    is_right = not any(each.severity == "error" for each in diagnostics)
    if is_right and not placeholders and any(launch.needs for launch in launches):
        elsewhere = Neighbours(cwd, replace(inputs, placeholders=True), parents=parents)
        launches = resolve_elsewhere(launches, elsewhere)
    count = sum(result.is_abstract for result in results)
    return Compiled(tuple(launches), tuple(diagnostics), traces, homes.prunes, count, left_out, len(launches))


def _each_once(results: Sequence[FileResult]) -> Iterator[FileResult]:
    """Yield the results. A problem in a file shared by several job files is kept once, with their count."""
    jobs = [result for result in results if not result.is_abstract]
    reach = Counter(place for result in jobs for place in {_place(found) for found in result.problems})
    shared = {_place(found) for result in results for found in result.problems if found.file != result.file}
    shown: set[tuple[str, Span | None, str]] = set()
    for result in results:
        kept = []
        for found in result.problems:
            place = _place(found)
            if place not in shared or place not in shown:
                count = reach[place] if place in shared else 1
                message = f"{found.message}, in {count} files" if count > 1 else found.message
                kept.append(replace(found, message=message))
        shown |= {_place(found) for found in result.problems}
        yield replace(result, problems=tuple(kept)) if kept or result.problems else result


def _place(found: Diagnostic) -> tuple[str, Span | None, str]:
    return found.file, found.span, found.code


def _without_twins(results: Sequence[FileResult]) -> list[FileResult]:
    """Return the results without repeated declarations of a job, each an error at its name."""
    first: dict[JobKey, Trace] = {}
    out = []
    for result in results:
        good, twins = [], dict[Declaration, Diagnostic]()
        for each in result.made:
            known = first.setdefault(each.launch.key, each.trace)
            if known is each.trace:
                good.append(each)
            else:
                twins.setdefault(declaration(each.launch), _twin(each.launch.key, known, each.trace))
        more = (*result.problems, *twins.values())
        out.append(replace(result, made=tuple(good), problems=more) if twins else result)
    return out


def _twin(key: JobKey, known: Trace, trace: Trace) -> Diagnostic:
    problems, file = Collector(trace.document), known.document.source.file
    place = Collector(known.document).place(("name",), "the other one is here", at="value")
    message = f"job `{key.job}` of project `{key.project}` is declared in {file} as well"
    hint = "rename one, or give it another `project`"
    problems.add(("name",), "duplicate-job", message, hint=hint, related=(place,))
    return problems.found[0]


def _with_needs(
    written: Sequence[Launch],
    traces: Mapping[JobKey, Trace],
    neighbours: Neighbours | None,
    reach: Reach | None,
) -> tuple[list[Launch], Mapping[JobKey, Sequence[Diagnostic]]]:
    """Return the launches with their needs resolved, and the problems of the needs by job.

    Jobs whose needs close a circle, or that read an output folder out of their reach, are left out.
    """
    if not any(launch.needs for launch in written):
        return [*written], {}
    launches, circles = resolve_needs(written)
    found: dict[JobKey, list[Diagnostic]] = {}
    for circle in circles:
        found.setdefault(circle.steps[0][0].key, []).append(circle.diagnostic(traces))
    if neighbours is not None:
        for launch, warning in unknown_needs(written, traces, neighbours):
            found.setdefault(launch.key, []).append(warning)
    wrong = {declaration(launch) for circle in circles for launch, _ in circle.steps}
    for launch, error in out_of_reach(written, traces, reach, neighbours):
        found.setdefault(launch.key, []).append(error)
        wrong.add(declaration(launch))
    return [launch for launch in launches if declaration(launch) not in wrong], found


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
        target: one of the file's `targets`; by default none.
        schedulers: scheduler name → function that returns its run options; by default the installed ones.

    Raises JobFileError, with `.diagnostics`, when the file is wrong or makes more than one job.
    """
    launches = load_jobs(path, vars=vars, target=target, schedulers=schedulers)
    if len(launches) != 1:
        holds = "directory holds" if os.path.isdir(path) else "file makes"
        message = f"the {holds} {len(launches)} jobs, want one"
        hint = "load_jobs gives all of them"
        raise job_file_error([of_whole_file(os.fspath(path), "invalid-value", message, hint)])
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
    """Compile a text as if it were the job file at the absolute `path`, which need not exist.

    Its declared inputs must exist, and are not read. Raises CommandError when git refuses.

    Args:
        rules: further rules of schedulers.
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
    return Compiled(tuple(result.launches), tuple(in_order([*home.config.problems, *result.problems])))


def _compile_file(found: FoundFile, work: Callable[[str], Work]) -> FileResult | None:
    """Return the result of one file; None where a file found in a directory was removed since."""
    source: Source | Diagnostic | None = None
    if not looks.lexists(found.path):
        source = read_source(found.file, found.path)  # reports a missing file, unless it was just made
    if not isinstance(source, Diagnostic):
        job = work(found.path)
        source = read_source(found.file, found.path, job.home.real_root)
        if not _is_unicode(job.home.origin + os.path.relpath(found.path, job.home.root)):
            message, hint = "its path is no UTF-8 text", "rename the file, or the folder that it lies in"
            source = of_whole_file(found.file, "unreadable", message, hint=of_encoding(hint))
    if isinstance(source, Diagnostic):
        # The error decides, since a file of that name may exist again by now.
        is_gone = found.walked and source.code == "no-such-file" and not looks.is_link(found.path)
        return None if is_gone else FileResult(file=found.file, problems=(source,))
    return compile_document(parse(source), job)


def _is_unicode(text: str) -> bool:
    """Whether text can be recorded, unlike a path with bytes that are not UTF-8."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _undeclared(
    given: Mapping[str, Any],
    files: VarFiles,
    results: Sequence[FileResult],
    shared: Set[str],
    paths: Sequence[str],
) -> list[Diagnostic]:
    """Return a diagnostic for each variable with a given value that no file declares.
    Files may leave the `shared` variables, of launcher.toml, unused."""
    if not results or any(result.declared is None for result in results):
        return []  # the unreadable file may declare it
    known = sorted(frozenset(shared).union(*(result.declared or () for result in results)))
    here = Related(file=paths[0] if len(paths) == 1 else f"{len(results)} files", span=None, message="")
    places = [(name, "--var", here) for name in given]
    places += [(name, "this file", each.place) for name, each in files.values.items()]
    return [
        Diagnostic(
            file=place.file,
            span=place.span,
            code="unknown-variable",
            message=f"no variable `{name}` is declared, and {giver} gives it a value",
            label=suggest(name, known),
            hint=listing("declared", known),
            source_line=place.source_line,
        )
        for name, giver, place in places
        if name not in known
    ]
