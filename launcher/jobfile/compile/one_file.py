"""One parsed job file → its launches, or what is wrong with it, under every target."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from launcher.jobfile.compile.advice import advise, advise_text, advise_variables, names_in
from launcher.jobfile.compile.build import check_defaults
from launcher.jobfile.compile.matrix import Combination, check_names, combinations, named
from launcher.jobfile.compile.one_job import Work, compile_job, references_of
from launcher.jobfile.compile.project import Home
from launcher.jobfile.compile.references import References
from launcher.jobfile.compile.trace import Trace
from launcher.jobfile.compile.variables import AnyVar, Inputs, Value, resolve_variables, without_secrets
from launcher.jobfile.compile.variants import Variant, Variants, chosen_target
from launcher.jobfile.diagnostics.diagnostic import Diagnostic
from launcher.jobfile.diagnostics.frame import Span
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
from launcher.specs import JobKey, Launch

MAX_JOBS = 4096
"""Of one file under all of its targets."""

MAX_TEXT = 32 << 20
"""Jobs under all targets, times the characters of the file: each job is compiled from all of it."""

_COMMON_ROLE: Path = ("defaults", "role")
_HIDES_USES = frozenset({"yaml-syntax", "toml-syntax", "unknown-reference", "lookalike-reference"})
"""Codes beside which an unused variable is not reported: what refers to it may be what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileResult:
    """What came out of one file.

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
    """What came out of one variant."""

    variant: Variant
    specs: Mapping[str, AnyVar]
    problems: list[Diagnostic]
    launches: list[Launch] = field(default_factory=list)
    traces: dict[JobKey, Trace] = field(default_factory=dict)
    job: JobFile | None = None
    collector: Collector | None = None
    jobs: int = 1

    @property
    def has_errors(self) -> bool:
        return any(found.severity == "error" for found in self.problems)

    def take(self, more: Iterable[Diagnostic]) -> None:
        """Add what was not found at the same place before."""
        self.problems += unreported(more, self.problems)


@dataclass(frozen=True, slots=True)
class Declared:
    """What a job file declares.

    Attributes:
        name: of the file's job, or of its matrix.
        jobs: the names of the jobs.
        is_guessed: whether values of the matrix are not known, and with them the names of the jobs.
        is_whole: whether all of the file could be parsed; else it may have a matrix further down.
    """

    file: str
    project: str
    name: str
    jobs: frozenset[str]
    is_guessed: bool = False
    is_whole: bool = True

    @property
    def names(self) -> frozenset[str]:
        """Everything that `needs` may name."""
        return self.jobs | {self.name}

    def declares(self, name: str) -> bool:
        if name == self.name or name in self.jobs:
            return True
        return self.is_guessed and name.startswith(f"{self.name}-")


def declared_in(document: Document, target: str, inputs: Inputs, home: Home) -> Declared | None:
    """What a file declares under a target, without compiling it; None when its name cannot be read."""
    name = (document.value or {}).get("name")
    if not isinstance(name, str):
        return None
    problems = Collector(document)
    variant = Variants(document, problems).of(target)
    value, _, known, made = _expanded_variant(variant, inputs, home, problems)
    project = references_of(value, known, {}, home, problems).values["job.project"].text
    is_guessed = not made or any(path[:1] == ("matrix",) for path in problems.assumed)
    jobs = frozenset(named(name, combination) for combination in made)
    is_whole = not any(found.severity == "error" for found in document.problems)
    return Declared(document.source.file, project, name, jobs, is_guessed, is_whole)


def compile_document(document: Document, work: Work) -> FileResult:
    """Compile a job file under the target asked for, and check it under all others."""
    problems = Collector(document, document.problems)
    if document.value is None or not _is_known_version(document.value, problems):
        return FileResult(problems=tuple(problems.found))
    unread = {found.span for found in document.problems if found.code == "yaml-syntax"}
    check_defaults(document.value, problems)
    variants = Variants(document, problems)
    target = chosen_target(work.target, variants.declared, work.home, problems)
    chosen = _compile_variant(variants.of(target), work, problems)
    found = [*problems.found, *_once_each(chosen, document)]
    before = len(problems.found)
    others = (
        []
        if _is_too_much(chosen.jobs * len(variants.targets), "targets", document, problems)
        else variants.targets
    )
    found += problems.found[before:]
    for other in others:
        if other != target:
            # A value that only the chosen target needs is nothing that this one lacks.
            inputs = replace(work.inputs, placeholders=True)
            outcome = _compile_variant(variants.of(other), replace(work, inputs=inputs), problems)
            found += unreported(_said_of(outcome, document), found)
    found = [each for each in found if each.code == "yaml-syntax" or not _begins_at(each, unread)]
    has_errors = any(diagnostic.severity == "error" for diagnostic in found)
    advise_text(document, problems := Collector(document))
    found += problems.found
    if not any(each.code in _HIDES_USES for each in found):
        inside = document.extent(("vars",))
        if not any(_stands_in(each, inside, document) for each in found):
            advise_variables(chosen.specs, document.value, problems := Collector(document))
            found += problems.found
    found = masked(without_secrets(found, chosen.specs, work.inputs), document)
    return FileResult(
        launches=() if has_errors else tuple(chosen.launches),
        problems=tuple(found),
        declared=frozenset(chosen.specs),
        source=document.source,
        traces=chosen.traces,
    )


def _is_too_much(jobs: int, field: str, document: Document, problems: Collector) -> bool:
    """Whether a file makes more jobs than can be compiled while a user waits; then it is noted."""
    if jobs <= MAX_JOBS and jobs * len(document.source.text) <= MAX_TEXT:
        return False
    message = f"`{field}` makes {jobs:,} jobs of a file of {len(document.source.text):,} characters"
    problems.add((field,), "too-large", message, at="key", label="split it into files")
    return True


def unreported(more: Iterable[Diagnostic], known: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Those whose place has no problem of this kind yet: one mistake may show under many targets."""
    seen = {(found.span, found.code) for found in known}
    return [diagnostic for diagnostic in more if (diagnostic.span, diagnostic.code) not in seen]


def _begins_at(found: Diagnostic, unread: Iterable[Span | None]) -> bool:
    """Whether it is about a value that could not be read: what stands in for it cannot be judged."""
    places = {(span.line, span.column) for span in unread if span}
    return found.span is not None and (found.span.line, found.span.column) in places


def _once_each(outcome: _Outcome, document: Document) -> list[Diagnostic]:
    """The problems; what is wrong in `defaults` is said of one role only."""
    if "defaults" not in (document.value or {}) or not outcome.problems:
        return outcome.problems
    within = document.extent(("defaults",))
    inside: list[Diagnostic] = []
    rest: list[Diagnostic] = []
    for found in outcome.problems:
        if _stands_in(found, within, document):
            inside += unreported([found], inside)
        else:
            rest.append(found)
    return [*inside, *rest]


def _stands_in(found: Diagnostic, within: tuple[int, int], document: Document) -> bool:
    first, last = map(document.source.position, within)
    return found.span is not None and first <= (found.span.line, found.span.column) < last


def _said_of(outcome: _Outcome, document: Document) -> list[Diagnostic]:
    """The problems of a target that was not asked for. Those at other places than its own name it."""
    return [
        found
        if _stands_in(found, outcome.variant.inside, document)
        else replace(found, message=f"{found.message}, in target `{outcome.variant.target}`")
        for found in _once_each(outcome, document)
    ]


def _is_known_version(value: Mapping[str, Any], problems: Collector) -> bool:
    """False for a later version, and for a file of another tool: nothing else can be said of it."""
    kind, key = foreign_file(value)
    if kind:
        problems.found.clear()
        begin = ", ".join(f"`{problems.entry(*each)}`" for each in (("version", VERSION), ("name", "…")))
        hint = f"a job file begins with {begin} and `roles`; `launcher init` writes one"
        problems.add((key,), "unknown-field", f"this is {kind} and no job file", at="key", hint=hint)
        return False
    version = value.get("version", VERSION)
    if isinstance(version, bool) or not isinstance(version, int):
        label = f"write {VERSION}"
        problems.add(
            ("version",), "wrong-type", f"`version` must be {VERSION}, not {got(version)}", label=label
        )
        problems.broken.add(("version",))
        return True
    if version > VERSION:
        problems.found.clear()
        message = f"the file is written in version {show(version)}, and this launcher knows {VERSION}"
        problems.add(("version",), "newer-version", message, label="upgrade launcher")
        return False
    if version != VERSION:
        message = f"there is no version {show(version)} of the language"
        problems.add(("version",), "out-of-range", message, label=f"write {VERSION}")
        problems.broken.add(("version",))
    return True


def _compile_variant(variant: Variant, work: Work, above: Collector) -> _Outcome:
    shared = Collector(variant.document, broken=set(above.broken))
    value, specs, known, made = _expanded_variant(variant, work.inputs, work.home, shared)
    if _is_too_much(len(made), "matrix", variant.document, shared):
        made = []
    outcome = _Outcome(variant, specs, shared.found, jobs=max(1, len(made)))
    for combination in made or [{}]:
        problems = shared.fork()
        job, launch = compile_job(value, known, combination, variant.target, work, problems)
        if outcome.collector is not None:
            outcome.take(problems.found)
        else:
            outcome.problems += problems.found
            outcome.job, outcome.collector = job, problems
        if launch is not None:
            outcome.launches.append(launch)
            outcome.traces[launch.key] = Trace.of(problems, variant, work.home.config, launch)
    if variant.common is not None:
        values = references_of(value, known, next(iter(made), {}), work.home, shared.fork()).values
        common = Collector(variant.common, definitions=shared.definitions)
        outcome.take(_check_common_role(References(common, values, work.home.git)))
    if outcome.collector is not None:
        outcome.collector.found.clear()
        advise(outcome.job, work.directory, outcome.collector, _common_fields(variant))
        outcome.take(outcome.collector.found)
    return outcome


def _expanded_variant(
    variant: Variant, inputs: Inputs, home: Home, problems: Collector
) -> tuple[dict[str, Any], dict[str, AnyVar], dict[str, Value], Sequence[Combination]]:
    """The file without `vars` and `matrix`, its variables, what references name, and the combinations."""
    value = dict(variant.document.value or {})
    specs = _definitions(value.pop("vars", {}), problems)
    inputs = replace(inputs, defaulted=variant.defaulted) if variant.defaulted else inputs
    known = _known_values(specs, inputs, variant.target, problems)
    if "matrix" not in value:
        return value, specs, known, [{}]
    return value, specs, known, _expanded(value.pop("matrix"), value, known, home, problems)


def _common_fields(variant: Variant) -> Collection[str]:
    """The fields that `defaults` has for all roles, also for those that have no use for them."""
    common = (variant.common.value or {}) if variant.common is not None else {}
    role = common.get("defaults", {}).get("role")
    return role.keys() if isinstance(role, dict) else ()


def _expanded(
    matrix: Any, value: Mapping[str, Any], known: dict[str, Value], home: Home, problems: Collector
) -> Sequence[Combination]:
    """The combinations. Of a wrong matrix there are none, and nothing is said of references to its axes."""
    name, project = value.get("name"), value.get("project", home.project)
    values = {**known, "job.name": Value(name, str(name))}
    if isinstance(project, str) and "$" not in project:
        values["job.project"] = Value(project, project)
    resolved = References(problems, values, home.git).resolve(matrix, JOB_FIELDS["matrix"], ("matrix",))
    made = combinations(resolved, problems)
    if isinstance(name, str):
        check_names(name, made, problems)
    if not made:
        known.update({name: Value(None, "") for name in names_in(value) if name.startswith("matrix.")})
    return made


def _definitions(value: Any, problems: Collector) -> dict[str, AnyVar]:
    """The variables that the file declares; without those that are wrong."""
    checked = References(problems, {}).resolve(value, JOB_FIELDS["vars"], ("vars",))
    specs: dict[str, AnyVar] = {}
    if checked == {}:
        return specs
    parts = checked.items() if isinstance(checked, dict) else ()
    try:
        return vars_adapter().validate_python(checked)
    except ValidationError as error:
        report(error.errors(include_url=False), checked, problems, ("vars",))
    for name, part in parts:
        try:
            specs.update(vars_adapter().validate_python({name: part}))
        except ValidationError:
            continue
    return specs


def _known_values(
    specs: Mapping[str, AnyVar], inputs: Inputs, target: str, problems: Collector
) -> dict[str, Value]:
    """What references of every job of the file name: its variables and its target."""
    values = {f"var.{name}": found for name, found in resolve_variables(specs, inputs, problems).items()}
    for name in _names((problems.document.value or {}).get("vars")):
        values.setdefault(f"var.{name}", Value(None, ""))  # declared wrongly: reported once, not at every use
    values["target.name"] = Value(target, target)
    return values


def _names(mapping: Any) -> list[str]:
    return [*mapping] if isinstance(mapping, dict) else []


def _check_common_role(references: References) -> list[Diagnostic]:
    """Check `defaults.role` of the references' document by itself.

    No role shows what each role overrides, and that may be wrong, too.
    """
    problems = references.problems
    given = (problems.document.value or {})["defaults"]["role"]
    role = references.resolve(given, ROLE, _COMMON_ROLE)
    job = {"version": VERSION, "name": "job", "roles": {"role": {"entrypoint": "program", **role}}}
    try:
        # As part of a job: its model is built already, one of the role alone would have to be.
        JobFile.model_validate(job)
    except ValidationError as error:
        found = error.errors(include_url=False)
        report([{**each, "loc": each["loc"][2:]} for each in found], role, problems, _COMMON_ROLE)
    return problems.found
