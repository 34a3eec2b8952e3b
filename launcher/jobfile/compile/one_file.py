"""One parsed job file → its launches, or what is wrong with it, under every target."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from launcher.jobfile.compile.advice import advise, advise_text, advise_variables, names_in
from launcher.jobfile.compile.build import check_defaults
from launcher.jobfile.compile.job_names import beginning, check_names, group_of, named
from launcher.jobfile.compile.matrix import NO_MATRIX, Combination, Matrix
from launcher.jobfile.compile.one_job import Expanded, Work, compile_job
from launcher.jobfile.compile.project import STAND_INS, Home
from launcher.jobfile.compile.references import References
from launcher.jobfile.compile.trace import Trace
from launcher.jobfile.compile.variables import AnyVar, Inputs, Value, resolve_variables, without_secrets
from launcher.jobfile.compile.variants import Variant, Variants, chosen_target
from launcher.jobfile.diagnostics.diagnostic import Diagnostic
from launcher.jobfile.messages.collector import Collector
from launcher.jobfile.messages.excerpts import masked
from launcher.jobfile.messages.names import got, show
from launcher.jobfile.messages.wording import report
from launcher.jobfile.model.base import VERSION
from launcher.jobfile.model.fields import JOB_FIELDS, ROLE
from launcher.jobfile.model.job_file import JobFile, vars_adapter
from launcher.jobfile.model.quantities import foreign_file
from launcher.jobfile.text.document import Document, Path
from launcher.jobfile.text.source import Source
from launcher.specs import JobKey, Launch, canonical

MAX_JOBS = 4096
"""Of one file under all of its targets."""

MAX_TEXT = 32 << 20
"""Jobs under all targets, times the characters of the file: each job is compiled from all of it."""

_GIT = "$<git."
_COMMON_ROLE: Path = ("defaults", "role")
_HIDES_USES = frozenset({"yaml-syntax", "toml-syntax", "unknown-reference", "lookalike-reference"})
"""Codes beside which an unused variable is not reported: what refers to it may be what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileResult:
    """The result of compiling one file.

    Attributes:
        launches: one, or one for each combination of its matrix; none when there is an error.
        declared: the names of its variables; None when the file could not be read that far.
        source: the text, for a problem that is found later: another file with the same job.
        traces: where the values of each launch come from.
    """

    launches: tuple[Launch, ...] = ()
    problems: tuple[Diagnostic, ...] = ()
    declared: frozenset[str] | None = None
    source: Source | None = None
    traces: Mapping[JobKey, Trace] = field(default_factory=dict)


@dataclass(slots=True)
class _Outcome:
    """The result of compiling one variant; `jobs` is the number of jobs that it makes."""

    variant: Variant
    specs: Mapping[str, AnyVar]
    problems: list[Diagnostic]
    jobs: int
    launches: list[Launch] = field(default_factory=list)
    traces: dict[JobKey, Trace] = field(default_factory=dict)

    def take(self, more: Iterable[Diagnostic]) -> None:
        """Add the problems that were not found at the same place before."""
        self.problems += unreported(more, self.problems)


@dataclass(frozen=True, slots=True)
class Declared:
    """The declarations of a job file.

    Attributes:
        name: of the file's job, or the one that means all jobs of its matrix.
        jobs: the names of the jobs.
        beginning: of the names of all jobs of its matrix.
        is_guessed: whether values of the matrix are not known, and with them the names of the jobs.
        is_whole: whether all of the file could be parsed; else it may have a matrix further down.
    """

    file: str
    project: str
    name: str
    jobs: frozenset[str]
    beginning: str
    is_guessed: bool = False
    is_whole: bool = True

    @property
    def names(self) -> frozenset[str]:
        """Everything that `needs` may name."""
        return self.jobs | {self.name}

    def declares(self, name: str) -> bool:
        if name == self.name or name in self.jobs:
            return True
        return self.is_guessed and name.startswith(self.beginning)


def declared_in(document: Document, target: str, inputs: Inputs, home: Home) -> Declared | None:
    """Return a file's declarations under a target, without compiling it; None for an unreadable name."""
    name = (document.value or {}).get("name")
    if not isinstance(name, str):
        return None
    problems = Collector(document)
    whole = _expanded(Variants(document, problems).of(target), inputs, home, problems)
    project = whole.references(NO_MATRIX, home, problems).values["job.project"].text
    is_guessed = not whole.combinations or any(map(whole.is_in_names, problems.assumed))
    jobs = frozenset(named(name, combination) for combination in whole.combinations)
    is_whole = not any(found.severity == "error" for found in document.problems)
    group = whole.group or name
    return Declared(document.source.file, project, group, jobs, beginning(name), is_guessed, is_whole)


def compile_document(document: Document, work: Work) -> FileResult:
    """Compile a job file under the target asked for, and check it under all others."""
    problems = Collector(document, document.problems)
    if document.value is None or not _is_known_version(document.value, problems):
        return FileResult(problems=tuple(problems.found))
    unread = {_start(found) for found in document.problems if found.code == "yaml-syntax"}
    check_defaults(document.value, problems)
    variants = Variants(document, problems)
    target = chosen_target(work.target, variants.declared, work.home, problems)
    chosen = _compile_variant(variants.of(target), work, problems)
    found = [*problems.found, *_once_each(chosen, document)]
    if _is_too_much(chosen.jobs * len(variants.targets), "targets", document, problems):
        found.append(problems.found[-1])
    else:
        # A value that only the chosen target needs is nothing that another one lacks.
        lenient = replace(work, inputs=replace(work.inputs, placeholders=True))
        for other in (name for name in variants.targets if name != target):
            outcome = _compile_variant(variants.of(other), lenient, problems)
            found += unreported(_problems_of_other(outcome, document), found)
    # What stands in for a value that could not be read cannot be judged.
    found = [each for each in found if each.code == "yaml-syntax" or _start(each) not in unread]
    has_errors = any(diagnostic.severity == "error" for diagnostic in found)
    advice = Collector(document)
    advise_text(document, advice)
    found += advice.found
    if not any(each.code in _HIDES_USES for each in found):
        inside = document.extent(("vars",))
        if not any(_is_within(each, inside, document) for each in found):
            advise_variables(chosen.specs, document.value, advice := Collector(document))
            found += advice.found
    found = masked(without_secrets(found, chosen.specs, work.inputs), document)
    launches = [] if has_errors else chosen.launches
    if launches and _GIT in document.source.text and not work.home.git.is_assumed:
        launches = _with_review_digests(launches, variants.of(target), work)
    return FileResult(
        launches=tuple(launches),
        problems=tuple(found),
        declared=frozenset(chosen.specs),
        source=document.source,
        traces=chosen.traces,
    )


def _with_review_digests(launches: Sequence[Launch], variant: Variant, work: Work) -> list[Launch]:
    """The launches of a file that names git values, with the digests that their documents have without them:
    it is compiled once more with fixed stand-ins. Arguments of components keep their values."""
    built = {launch.key.job: launch.app for launch in launches}
    alike = replace(work, home=replace(work.home, git=STAND_INS), built=built)
    symbolic = {
        each.key: each for each in _compile_variant(variant, alike, Collector(variant.document)).launches
    }
    return [
        replace(launch, review_digest=canonical.digest(canonical.document(symbolic[launch.key])))
        for launch in launches
    ]


def _is_too_much(jobs: int, field: str, document: Document, problems: Collector) -> bool:
    """Whether a file makes more jobs than can be compiled while a user waits; then it is noted."""
    if jobs <= MAX_JOBS and jobs * len(document.source.text) <= MAX_TEXT:
        return False
    message = f"`{field}` makes {jobs:,} jobs of a file of {len(document.source.text):,} characters"
    problems.add((field,), "too-large", message, at="key", label="split it into files")
    return True


def unreported(more: Iterable[Diagnostic], known: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The problems whose place has none of their kind yet: one mistake may show under many targets."""
    seen = {(found.span, found.code) for found in known}
    return [diagnostic for diagnostic in more if (diagnostic.span, diagnostic.code) not in seen]


def _start(found: Diagnostic) -> tuple[int, int] | None:
    return (found.span.line, found.span.column) if found.span else None


def _is_within(found: Diagnostic, within: tuple[int, int], document: Document) -> bool:
    first, last = map(document.source.position, within)
    start = _start(found)
    return start is not None and first <= start < last


def _once_each(outcome: _Outcome, document: Document) -> list[Diagnostic]:
    """The problems of a variant; each one in `defaults` is reported of one role only."""
    if "defaults" not in (document.value or {}) or not outcome.problems:
        return outcome.problems
    within = document.extent(("defaults",))
    inside: list[Diagnostic] = []
    rest: list[Diagnostic] = []
    for found in outcome.problems:
        if _is_within(found, within, document):
            inside += unreported([found], inside)
        else:
            rest.append(found)
    return [*inside, *rest]


def _problems_of_other(outcome: _Outcome, document: Document) -> list[Diagnostic]:
    """The problems of a target that was not asked for. Those outside of its overlay name it."""
    return [
        found
        if _is_within(found, outcome.variant.inside, document)
        else replace(found, message=f"{found.message}, in target `{outcome.variant.target}`")
        for found in _once_each(outcome, document)
    ]


def _is_known_version(value: Mapping[str, Any], problems: Collector) -> bool:
    """Return False for a later version, and for a file of another tool: no further check applies to it."""
    kind, key = foreign_file(value)
    version = value.get("version", VERSION)
    path = ("version",)
    if kind:
        problems.found.clear()
        begin = ", ".join(f"`{problems.entry(*each)}`" for each in (("version", VERSION), ("name", "…")))
        hint = f"a job file begins with {begin} and `roles`; `launcher init` writes one"
        problems.add((key,), "unknown-field", f"this is {kind} and no job file", at="key", hint=hint)
        return False
    if isinstance(version, bool) or not isinstance(version, int):
        message = f"`version` must be {VERSION}, not {got(version)}"
        problems.add(path, "wrong-type", message, label=f"write {VERSION}", is_final=True)
    elif version > VERSION:
        problems.found.clear()
        message = f"the file is written in version {show(version)}, and this launcher knows {VERSION}"
        problems.add(path, "newer-version", message, label="upgrade launcher")
        return False
    elif version != VERSION:
        message = f"there is no version {show(version)} of the language"
        problems.add(path, "out-of-range", message, label=f"write {VERSION}", is_final=True)
    return True


def _compile_variant(variant: Variant, work: Work, above: Collector) -> _Outcome:
    shared = Collector(variant.document, broken=set(above.broken))
    whole = _expanded(variant, work.inputs, work.home, shared)
    if _is_too_much(len(whole.combinations), "matrix", variant.document, shared):
        whole.combinations = []
    made = whole.combinations or [NO_MATRIX]
    outcome = _Outcome(variant, whole.specs, shared.found, len(made))
    first: tuple[JobFile | None, Collector] | None = None
    for combination in made:
        problems = shared.fork()
        job, launch = compile_job(whole, combination, work, problems)
        if first is None:
            first = job, problems
            outcome.problems += problems.found
        else:
            outcome.take(problems.found)
        if launch is not None:
            outcome.launches.append(launch)
            outcome.traces[launch.key] = Trace.of(problems, variant, work.home.config, launch)
    if outcome.launches:
        outcome.launches[0] = replace(outcome.launches[0], notes=(*_unused_axes(whole),))
    common_fields: Collection[str] = ()
    if variant.common is not None:
        values = whole.references(made[0], work.home, shared.fork()).values
        references = References(
            Collector(variant.common, definitions=shared.definitions), values, work.home.git
        )
        common_fields = _check_common_role(references)
        outcome.take(references.problems.found)
    if first is not None:
        job, problems = first
        problems.found.clear()
        advise(job, work.directory, problems, common_fields)
        outcome.take(problems.found)
    return outcome


def _unused_axes(whole: Expanded) -> Iterator[str]:
    """A note on each axis of several values that nothing refers to: its jobs may be meant to repeat."""
    used = {*names_in(whole.value)}
    for axis in whole.combinations[0].axes if whole.combinations and "job.name" not in used else ():
        count = len({each.axes[axis].text for each in whole.combinations})
        if f"matrix.{axis}" not in used and count > 1:
            yield f"nothing refers to `$<matrix.{axis}>`: the jobs of its {count} values are alike"


def _expanded(variant: Variant, inputs: Inputs, home: Home, problems: Collector) -> Expanded:
    value = dict(variant.document.value or {})
    declared = value.pop("vars", {})
    specs = _definitions(declared, problems)
    inputs = replace(inputs, defaulted=variant.defaulted) if variant.defaulted else inputs
    known = {f"var.{name}": found for name, found in resolve_variables(specs, inputs, problems).items()}
    for name in declared if isinstance(declared, dict) else ():
        known.setdefault(f"var.{name}", Value(None, ""))  # declared wrongly: reported once, not at every use
    known["target.name"] = Value(variant.target, variant.target)
    whole = Expanded(value, specs, known, variant.target)
    if "matrix" in value:
        whole.combinations = _combinations(value.pop("matrix"), whole, home, problems)
    return whole


def _combinations(matrix: Any, whole: Expanded, home: Home, problems: Collector) -> Sequence[Combination]:
    """Return the combinations. A wrong matrix has none, and references to its axes are not checked."""
    name, project = whole.value.get("name"), whole.value.get("project", home.project)
    group = group_of(name, matrix)
    whole.group = group if isinstance(group, str) else ""
    values = {**whole.known, "job.name": Value(group, str(group))}
    if isinstance(project, str) and "$" not in project:
        values["job.project"] = Value(project, project)
    resolved = References(problems, values, home.git).resolve(matrix, JOB_FIELDS["matrix"], ("matrix",))
    made = Matrix(problems, {*names_in(whole.value)}).combinations(resolved)
    made = check_names(name, matrix, made, problems)
    if not made:
        axes = (name for name in names_in(whole.value) if name.startswith("matrix."))
        whole.known.update({axis: Value(None, "") for axis in axes})
    return made


def _definitions(value: Any, problems: Collector) -> dict[str, AnyVar]:
    """The variables that the file declares; without those that are wrong."""
    checked = References(problems, {}).resolve(value, JOB_FIELDS["vars"], ("vars",))
    if checked == {}:
        return {}
    try:
        return vars_adapter().validate_python(checked)
    except ValidationError as error:
        report(error.errors(include_url=False), checked, problems, ("vars",))
    specs: dict[str, AnyVar] = {}
    for name, part in checked.items() if isinstance(checked, dict) else ():
        with suppress(ValidationError):
            specs.update(vars_adapter().validate_python({name: part}))
    return specs


def _check_common_role(references: References) -> Collection[str]:
    """Check `defaults.role` of the references' document by itself; return the names of its fields.

    No role shows what each role overrides, and that may be wrong, too.
    """
    given = (references.document.value or {})["defaults"]["role"]
    role = references.resolve(given, ROLE, _COMMON_ROLE)
    job = {"version": VERSION, "name": "job", "roles": {"role": {"entrypoint": "program", **role}}}
    try:
        # As part of a job: its model is built already, one of the role alone would have to be.
        JobFile.model_validate(job)
    except ValidationError as error:
        found = [{**each, "loc": each["loc"][2:]} for each in error.errors(include_url=False)]
        report(found, role, references.problems, _COMMON_ROLE)  # type: ignore[arg-type]
    return list(given)
