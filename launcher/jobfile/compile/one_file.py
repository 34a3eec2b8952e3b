"""Compile one parsed job file under every target to its launches or its problems."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from launcher.dataclass import dataclass, field, replace
from launcher.files import MAX_JOB_FILE_BYTES
from launcher.jobfile.compile.advice import advise, advise_text, advise_variables
from launcher.jobfile.compile.inputs import Folders
from launcher.jobfile.compile.layers import Layered, Parents, is_known_version, layered
from launcher.jobfile.compile.matrix import NO_MATRIX, named
from launcher.jobfile.compile.one_job import Trace, Work, compile_job, expanded
from launcher.jobfile.compile.overlay import WHOLE, Placed, holding, laid_over, swept, without
from launcher.jobfile.compile.project import STAND_INS, Home
from launcher.jobfile.compile.references import References
from launcher.jobfile.compile.variables import AnyVar, Inputs, without_secrets
from launcher.jobfile.compile.variants import Variant, Variants, beginning, chosen_target
from launcher.jobfile.diagnostic import Diagnostic, Span
from launcher.jobfile.messages.collector import Collector, got, masked
from launcher.jobfile.messages.wording import report
from launcher.jobfile.model.fields import ROLE
from launcher.jobfile.model.job_file import JobFile
from launcher.jobfile.model.types import VERSION
from launcher.jobfile.text.document import Document, Path
from launcher.specs import canonical
from launcher.specs.launch import Launch
from launcher.text import distance

MAX_JOBS = 40_000
"""The most jobs of one file under all of its targets."""

MAX_TEXT = 128 << 20
"""The most characters to compile: jobs under all targets, times the file's length without its matrix."""

MAX_SPELLINGS = 3
"""How often a file is checked again with the keys that its unknown ones mean: once for each level of them."""

_COMMON_ROLE: Path = ("defaults", "role")
_HIDES_USES = frozenset({"yaml-syntax", "toml-syntax", "unknown-reference", "lookalike-reference"})
"""Codes that hide unused variables: the faulty text may be the variable's only reference."""
_OF_CHILDREN = frozenset({
    "missing-field", "constraint", "unknown-reference", "unknown-variable", "unused-field", "unused-variable",
})  # fmt: skip
"""Codes that are ignored in an abstract file, since its children may have the missing parts."""


class Made(NamedTuple):
    """A launch, and the trace of its values."""

    launch: Launch
    trace: Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class FileResult:
    """The result of compiling one file.

    Attributes:
        made: the jobs, several for a job with a matrix; none of a job with an error.
        declared: the names of its variables; None when the file could not be read that far.
        lacking: the jobs without the requested target, each with the message about that.
        is_abstract: whether it is only a parent of other files.
    """

    file: str
    made: tuple[Made, ...] = ()
    problems: tuple[Diagnostic, ...] = ()
    declared: frozenset[str] | None = None
    lacking: Sequence[Diagnostic] = ()
    is_abstract: bool = False

    @property
    def launches(self) -> list[Launch]:
        return [each.launch for each in self.made]


@dataclass(slots=True)
class _Gathered:
    """Problems of a file in the order in which they were found."""

    found: list[Diagnostic] = field(default_factory=list)
    _seen: set[tuple[Span | None, str]] = field(default_factory=set)

    def add(self, more: Collection[Diagnostic]) -> None:
        self.found += more
        self._seen.update((each.span, each.code) for each in more)

    def take(self, more: Iterable[Diagnostic]) -> None:
        """Add those problems that are the first of their kind at their place: many jobs repeat a mistake."""
        self.add([each for each in more if (each.span, each.code) not in self._seen])


@dataclass(slots=True)
class _Outcome:
    """The result of compiling one variant; `jobs` is the number of jobs that it makes."""

    variant: Variant
    specs: Mapping[str, AnyVar]
    problems: _Gathered
    jobs: int
    made: list[Made] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Declared:
    """The declarations of a job file.

    Attributes:
        name: the name of the file's job, or the name that means all jobs of its matrix.
        jobs: the names of the jobs.
        beginning: the common beginning of the names of its matrix's jobs.
        is_guessed: whether values of the matrix, and so the names of the jobs, are unknown.
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
        """Every name that `needs` may use."""
        return self.jobs | {self.name}

    def declares(self, name: str) -> bool:
        if name == self.name or name in self.jobs:
            return True
        return self.is_guessed and name.startswith(self.beginning)


def declared_in(
    document: Document, path: str, target: str, inputs: Inputs, home: Home, parents: Parents
) -> list[Declared]:
    """Return the jobs that the file at an absolute path declares under a target, without compiling them."""
    problems = Collector(document)
    jobs = layered(document, path, home, parents, problems) or ()
    is_whole = not any(found.severity == "error" for found in document.problems)
    return [found for job in jobs if (found := _declared(job, target, inputs, home, is_whole))]


def _declared(job: Layered, target: str, inputs: Inputs, home: Home, is_whole: bool) -> Declared | None:
    """Return the declarations of one job; None when its name cannot be read."""
    document = job.document
    name = (document.value or {}).get("name")
    if not isinstance(name, str):
        return None
    problems = Collector(document)
    whole = expanded(Variants(document, problems, job.marked).of(target), inputs, home, problems)
    project = whole.references(NO_MATRIX, home, problems).values["job.project"].text
    is_guessed = not whole.combinations or any(map(whole.is_in_names, problems.assumed))
    jobs = frozenset(named(name, combination) for combination in whole.combinations)
    group = whole.group or name
    return Declared(document.source.file, project, group, jobs, beginning(name), is_guessed, is_whole)


def compile_document(document: Document, work: Work) -> FileResult:
    """Compile a job file, each of its jobs under the target asked for, and check them under all others.

    A file with misspelt keys is checked as one with the keys that they mean: their values have problems too,
    and what lacks them has none.
    """
    result = _compile_as_is(document, work)
    found, made = result.problems, result.made
    misspelt = _Gathered()
    for _ in range(MAX_SPELLINGS):
        names = _meant(document, found)
        if not names:
            break
        misspelt.add([each for each in found if _start(each) in names])
        document = document.renamed(names)
        result = _compile_as_is(document, work)
        found = result.problems
    misspelt.take(found)
    return replace(result, made=made, problems=tuple(misspelt.found))


def _meant(document: Document, found: Iterable[Diagnostic]) -> dict[tuple[int, int], str]:
    """Return the position of each misspelt key with values inside, and the key that is spelt alike."""
    near: dict[tuple[int, int] | None, str] = {}
    for each in found:
        if each.code == "unknown-field" and each.meant and each.file == document.source.file:
            near[_start(each)] = each.meant
    names: dict[tuple[int, int], str] = {}
    taken: set[tuple[int, str]] = set()
    for at, key, mapping in document.keys() if near else ():
        name = near.get(at, key)
        is_slip = distance(key, name) <= max(len(key), len(name)) // 3
        is_free = name not in mapping and (id(mapping), name) not in taken
        if is_slip and is_free and isinstance(mapping[key], dict | list):
            names[at] = name
            taken.add((id(mapping), name))
    return names


def _compile_as_is(document: Document, work: Work) -> FileResult:
    problems, file = Collector(document, document.problems), document.source.file
    if document.value is None or not is_known_version(document.value, problems):
        return FileResult(file=file, problems=tuple(problems.found))
    is_abstract = _is_abstract(document.value, problems)
    jobs = layered(document, work.path, work.home, work.parents, problems)
    if jobs is None:
        return FileResult(file=file, problems=tuple(problems.found), is_abstract=is_abstract)
    advise_text(document, problems)
    gathered = _Gathered()
    gathered.add(problems.found)
    if is_abstract:
        jobs = [_completed(job) for job in jobs]
        work = replace(work, rules=None, folders=Folders(is_read=False, is_here=False))
    texts = {id(layer.source): layer.source.text for job in jobs for layer in job.document.layers}
    names_git = any("$<git." in text for text in (document.source.text, *texts.values()))
    results = [_compile_job(job, work, problems, names_git) for job in jobs]
    for result in results:
        gathered.take(result.problems)
    # Names in an abstract file may be declared by its children.
    found = [each for each in gathered.found if not (is_abstract and each.code in _OF_CHILDREN)]
    declared = [result.declared for result in results if result.declared is not None]
    is_sound = not is_abstract and not any(each.severity == "error" for each in problems.found)
    return FileResult(
        file=file,
        made=tuple(each for result in results for each in result.made if is_sound),
        problems=tuple(masked(found, document)),
        declared=frozenset().union(*declared) if len(declared) == len(jobs) else None,
        lacking=[each for result in results for each in result.lacking if not is_abstract],
        is_abstract=is_abstract,
    )


def _is_abstract(value: Mapping[str, Any], problems: Collector) -> bool:
    """Whether a file is only a parent of others; a wrong `abstract` is noted."""
    given = value.get("abstract", False)
    if not isinstance(given, bool):
        message = f"`abstract` must be true or false, not {got(given)}"
        problems.add(("abstract",), "wrong-type", message, label="write true", is_final=True)
    for key in ("name", "jobs") if given is True else ():
        if key in value:
            message = f"an abstract file is no job of its own, and has no `{key}`"
            problems.add((key,), "conflicting-fields", message, at="key", label="delete it, or `abstract`")
    return given is True


def _completed(job: Layered) -> Layered:
    """Return an abstract file as a job, with stand-ins for a component and for fields that its children add.

    The component may be in a file beside the children.
    """
    node = job.marked or Placed(job.document.value, job.document.root())
    node = without(node, "abstract", *(("component", "args") if "component" in node.value else ()))
    stand_ins = {"name": "abstract", "roles": {"role": {}}}
    node = laid_over(Placed(stand_ins, node.spot), node, WHOLE, is_filling=True)
    return Layered(holding(job.document, swept(node)), node)


def _unused(
    specs: Mapping[str, AnyVar], document: Document, found: Sequence[Diagnostic]
) -> Sequence[Diagnostic]:
    """Return warnings of variables that nothing uses, unless their definitions are wrong."""
    keys = ("vars", "matrix", "name") if found else ()
    inside = [text for key in keys for text in document.extents((key,))]
    if any(text.holds(each) for each in found for text in inside):
        return ()
    if document.layers:  # variables of other layers may serve other files
        own = (name for name in specs if document.key_range(("vars", name)).source is document.source)
        specs = {name: specs[name] for name in own}
    advise_variables(specs, document.value or {}, advice := Collector(document))
    return advice.found


def _compile_job(job: Layered, work: Work, above: Collector, names_git: bool) -> FileResult:
    """Return the result of one job of a file; `above` has the known problems of the file."""
    document = job.document
    problems = Collector(document, broken=set(above.broken))
    unread = {_start(found) for found in document.problems if found.code == "yaml-syntax"}
    variants = Variants(document, problems, job.marked)
    lacking = Collector(document)
    target = chosen_target(work.target, variants.declared, work.home, problems, lacking)
    chosen = _compile_variant(variants.of(target), work, problems)
    gathered = _Gathered()
    gathered.add([*problems.found, *_once_each(chosen, document)])
    if _is_too_much(chosen.jobs * len(variants.targets), "targets", document, problems):
        gathered.add(problems.found[-1:])
    else:
        for other in (name for name in variants.targets if name != target):
            # A value that only the chosen target needs is not missing in another target.
            lenient = replace(work, inputs=replace(work.inputs, placeholders=True))
            outcome = _compile_variant(variants.of(other), lenient, problems)
            gathered.take(_problems_of_other(outcome, document))
        gathered.add(job.vain_removals())
    # A stand-in for an unreadable value cannot be judged.
    found = [each for each in gathered.found if each.code == "yaml-syntax" or _start(each) not in unread]
    has_errors = any(diagnostic.severity == "error" for diagnostic in found)
    if not any(each.code in _HIDES_USES for each in (*above.found, *found)):
        found += _unused(chosen.specs, document, found)
    found = masked(without_secrets(found, chosen.specs, work.inputs), document)
    made = [] if has_errors or lacking.found else chosen.made
    if made and names_git and not work.home.git.is_assumed:
        made = _with_review_digests(made, variants.of(target), work)
    return FileResult(
        file=document.source.file,
        made=tuple(made),
        problems=tuple(found),
        declared=frozenset(chosen.specs),
        lacking=lacking.found,
    )


def _with_review_digests(made: Sequence[Made], variant: Variant, work: Work) -> list[Made]:
    """Return the launches of a job that names git values, with the digests of their documents without those
    values: the job is compiled once more with fixed stand-ins. Arguments of components keep their values."""
    built = {launch.key.job: launch.app for launch, _ in made}
    alike = replace(work, home=replace(work.home, git=STAND_INS), built=built)
    symbolic = _compile_variant(variant, alike, Collector(variant.document)).made
    digests = {launch.key: canonical.digest_of(launch) for launch, _ in symbolic}
    return [
        each._replace(launch=replace(each.launch, review_digest=digests[each.launch.key])) for each in made
    ]


def _is_too_much(jobs: int, field: str, document: Document, problems: Collector) -> bool:
    """Whether a file makes too many jobs to compile while a user waits. Notes such a file."""
    if jobs <= MAX_TEXT // MAX_JOB_FILE_BYTES:
        return False
    axes = sum(len(each.text) for each in document.extents(("matrix",)) if each.source is document.source)
    size = len(document.source.text) - axes
    if jobs <= MAX_JOBS and jobs * size <= MAX_TEXT:
        return False
    message = f"`{field}` makes {jobs:,} jobs of a file of {size:,} characters"
    problems.add((field,), "too-large", message, at="key", label="split it into files")
    return True


def _start(found: Diagnostic) -> tuple[int, int] | None:
    return (found.span.line, found.span.column) if found.span else None


def _once_each(outcome: _Outcome, document: Document) -> list[Diagnostic]:
    """Return the problems of a variant; a problem in `defaults` is reported for one role only."""
    problems = outcome.problems.found
    if "defaults" not in (document.value or {}) or not problems:
        return problems
    within = document.extents(("defaults",))
    inside, rest = _Gathered(), []
    for found in problems:
        if any(text.holds(found) for text in within):
            inside.take([found])
        else:
            rest.append(found)
    return [*inside.found, *rest]


def _problems_of_other(outcome: _Outcome, document: Document) -> list[Diagnostic]:
    """Return the problems of a target that was not requested. Problems outside of its overlay name it."""
    return [
        found
        if any(text.holds(found) for text in outcome.variant.inside)
        else replace(found, message=f"{found.message}, in target `{outcome.variant.target}`")
        for found in _once_each(outcome, document)
    ]


def _compile_variant(variant: Variant, work: Work, above: Collector) -> _Outcome:
    shared = Collector(variant.document, broken=set(above.broken))
    whole = expanded(variant, work.inputs, work.home, shared)
    if _is_too_much(len(whole.combinations), "matrix", variant.document, shared):
        whole.combinations = []
    made = whole.combinations or [NO_MATRIX]
    outcome = _Outcome(variant, whole.specs, _Gathered(), len(made))
    outcome.problems.add(shared.found)
    first: tuple[JobFile, Collector] | None = None
    for combination in made:
        problems = shared.fork()
        job, launch = compile_job(whole, combination, work, problems)
        if first is None:
            first = job, problems
            outcome.problems.add(problems.found)
        else:
            outcome.problems.take(problems.found)
        notes = () if outcome.made else (*whole.notes_on_unused_axes(),)
        trace = Trace(problems, variant, work.home.config, launch.scheduler)
        launch = replace(launch, notes=notes, shared_line=trace.shared_line)
        outcome.made.append(Made(launch, trace))
    common_fields: Collection[str] = ()
    if variant.common is not None:
        values = whole.references(made[0], work.home, shared.fork()).values
        found = Collector(variant.common, definitions=shared.definitions)
        references = References(found, values, work.home.git)
        common_fields = _check_common_role(references)
        outcome.problems.take(references.problems.found)
    if first is not None:
        job, problems = first
        problems.found.clear()
        advise(job, work.directory, problems, common_fields)
        outcome.problems.take(problems.found)
    return outcome


def _check_common_role(references: References) -> Collection[str]:
    """Check `defaults.role` of the references' document by itself; return the names of its fields.

    So a wrong value is found even if every role overrides it.
    """
    given = (references.document.value or {})["defaults"]["role"]
    role = references.resolve(given, ROLE, _COMMON_ROLE)
    job = {"version": VERSION, "name": "job", "roles": {"role": {"entrypoint": "program", **role}}}
    try:
        # It is checked as part of a job, whose model exists already, unlike a model of the role alone.
        JobFile.model_validate(job)
    except ValidationError as error:
        found = [{**each, "loc": each["loc"][2:]} for each in error.errors(include_url=False)]
        report(found, role, references.problems, _COMMON_ROLE)  # type: ignore[arg-type]
    return list(given)
