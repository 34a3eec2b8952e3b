"""Expand one variant of a file to its jobs; compile each: resolve, validate, build; and trace its values."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from launcher.components.calls import Calls
from launcher.dataclass import dataclass, field, replace
from launcher.jobfile.compile.build import (
    as_written,
    build_app,
    build_component,
    build_lifecycle,
    check_shape,
    validated,
    with_project,
)
from launcher.jobfile.compile.inputs import Folders
from launcher.jobfile.compile.layers import Parents
from launcher.jobfile.compile.matrix import (
    NO_MATRIX,
    Combination,
    Matrix,
    is_pattern,
    matrix_values,
    named,
    names_of,
)
from launcher.jobfile.compile.options import Rules, Schedulers, check_options
from launcher.jobfile.compile.project import Config, Home
from launcher.jobfile.compile.references import References, names_in
from launcher.jobfile.compile.variables import AnyVar, Inputs, Value, resolve_variables
from launcher.jobfile.compile.variants import Variant, check_names, group_of
from launcher.jobfile.messages.collector import At, Collector, show
from launcher.jobfile.messages.wording_fields import bad_label
from launcher.jobfile.model.fields import JOB, JOB_FIELDS
from launcher.jobfile.model.job_file import ComponentJob, Declarations, JobFile, NeedSpec
from launcher.jobfile.model.types import LABEL
from launcher.jobfile.text.document import Document, Path, Range
from launcher.specs.app import AppDef
from launcher.specs.check import Problem
from launcher.specs.jobkey import DEFAULT_TARGET, JobKey
from launcher.specs.launch import NO_BUDGET, Launch, Need
from launcher.specs.outputs import references, unneeded
from launcher.specs.secret import hide


@dataclass(frozen=True, slots=True)
class Work:
    """The inputs of compiling a file, beside the file itself.

    Attributes:
        path: of the file, absolute.
        target: the requested target, or None.
        home: the settings that the job files of its folder share.
        folders: hashes the files that the job file declares as inputs.
        rules: the rules of schedulers; None where they are unknown.
        built: job → the app that its component has made, so that it is not called again.
    """

    path: str
    inputs: Inputs
    target: str | None
    schedulers: Schedulers | None
    home: Home
    folders: Folders = field(default_factory=Folders)
    rules: Rules | None = None
    calls: Calls = field(default_factory=Calls)
    parents: Parents = field(default_factory=Parents)
    built: Mapping[str, AppDef] = field(default_factory=dict)

    @property
    def directory(self) -> str:
        return os.path.dirname(self.path)


@dataclass(slots=True)
class Expanded:
    """One variant of a job file, before its jobs are compiled.

    Attributes:
        value: the file without `vars` and `matrix`.
        known: the values of references other than to the matrix.
        group: the name that means all jobs of its matrix; "" without one.
    """

    value: dict[str, Any]
    specs: Mapping[str, AnyVar]
    known: dict[str, Value]
    target: str
    combinations: Sequence[Combination] = (NO_MATRIX,)
    group: str = ""

    def notes_on_unused_axes(self) -> Iterator[str]:
        """Yield a note on each axis of several values without a reference: the jobs may just repeat."""
        axes = self.combinations[0].axes if self.combinations else {}
        used = names_in(self.value) if axes else {"job.name"}
        for axis in axes if "job.name" not in used else ():
            count = len({each.axes[axis].text for each in self.combinations})
            if f"matrix.{axis}" not in used and count > 1:
                yield f"nothing refers to `$<matrix.{axis}>`: the jobs of its {count} values are alike"

    def is_in_names(self, path: Path) -> bool:
        """Whether the value at a path decides which jobs the matrix makes, or how they are called."""
        if path[:1] != ("matrix",) or path[1:2] != ("include",) or len(path) < 4:
            return path[:1] == ("matrix",)
        in_pattern = names_in(self.value.get("name"))
        return path[3] in self.combinations[0].axes or f"matrix.{path[3]}" in in_pattern

    def references(self, combination: Combination, home: Home, problems: Collector) -> References:
        """Return all names and values that references in the job of a combination can use."""
        name = self.value.get("name")
        full = named(name, combination) if isinstance(name, str) else None
        if is_pattern(full):
            full = None  # the missing value is reported for the name
        values = {**self.known, **matrix_values(combination), "job.name": Value(full, full or "")}
        first = References(problems, values, home.git)
        project = first.resolve(
            self.value.get("project", home.config.project), JOB_FIELDS["project"], ("project",)
        )
        is_known = isinstance(project, str) and not problems.is_broken(("project",))
        first.values["job.project"] = Value(project if is_known else None, str(project))
        return References(problems, first.values, home.git, combination)


def expanded(variant: Variant, inputs: Inputs, home: Home, problems: Collector) -> Expanded:
    """Return a variant with the values of its variables and the combinations of its matrix."""
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
    """Return the combinations. A wrong matrix has none: references to it are then checked for their names."""
    name, project = whole.value.get("name"), whole.value.get("project", home.config.project)
    group = group_of(name, matrix)
    whole.group = group if isinstance(group, str) else ""
    values = {**whole.known, "job.name": Value(group, str(group))}
    if isinstance(project, str) and "$" not in project:
        values["job.project"] = Value(project, project)
    resolved = References(problems, values, home.git).resolve(matrix, JOB_FIELDS["matrix"], ("matrix",))
    made = Matrix(problems, names_in(whole.value)).combinations(resolved)
    made = check_names(name, matrix, made, problems)
    if not made:
        used = (name for name in names_in(whole.value) if name.startswith("matrix."))
        declared = names_of(resolved)
        names = used if declared is None else (f"matrix.{name}" for name in declared)
        whole.known.update({name: Value(None, "") for name in names})
    return made


def _definitions(value: Any, problems: Collector) -> dict[str, AnyVar]:
    """Return the variables that the file declares, without their wrong parts."""
    checked = References(problems, {}).resolve(value, JOB_FIELDS["vars"], ("vars",))
    if checked == {}:
        return {}
    return validated(Declarations, {"vars": checked}, problems).vars


def compile_job(
    whole: Expanded, combination: Combination, work: Work, problems: Collector
) -> tuple[JobFile, Launch]:
    """Return the job of one combination. Faults go to `problems`; a wrong job is made of its right parts."""
    for name, cell in combination.cells.items():
        text = f"`$<matrix.{name}>` is {show(hide(cell.value, name))} here"
        problems.definitions[f"matrix.{name}"] = (cell.path, "value", text)
    references = whole.references(combination, work.home, problems)
    value = references.resolve(whole.value, JOB, ())
    check_shape(value, problems)
    job = validated(ComponentJob if "component" in value else JobFile, value, problems)
    name = job.name if is_pattern(whole.value.get("name")) else named(job.name, combination)
    has_matrix = bool(combination) or "matrix" in (problems.document.value or {})
    if job.max_parallel is not None and not has_matrix:
        message = "`max_parallel` is for the jobs of a `matrix`, and there is none"
        hint = "`max_parallel` in [queue] of launcher.toml limits all jobs of a project"
        also = "" if whole.target == DEFAULT_TARGET else f", or set it to null in `{whole.target}`"
        label, path = f"remove it{also}", ("max_parallel",)
        problems.add(path, "constraint", message, at="key", label=label, hint=hint)
    needs = build_needs(job.needs, name, references)
    launch = _launch(job, name, needs, whole.target, work, problems)
    if problems.is_sound(("needs",)):
        _check_outputs(launch.app, {need.job for need in needs}, job, problems)
    if combination:
        launch = replace(launch, matrix=whole.group or job.name, max_parallel=job.max_parallel)
    return job, launch


def _check_outputs(app: AppDef, needs: Collection[str], job: JobFile, problems: Collector) -> None:
    """Note references to output folders of jobs that are not needed; remember the other references."""
    others = [each for each in references(app) if each.job]
    for found in as_written(unneeded(others, needs), job):
        problems.add(found.path, found.code, found.message, label="add it to `needs`")
    places = [Problem(each.path, each.job, each.written) for each in others]
    problems.outputs = [(each.code, each.path, each.message) for each in as_written(places, job)]


def _launch(
    job: JobFile, name: str, needs: tuple[Need, ...], target: str, work: Work, problems: Collector
) -> Launch:
    home = work.home
    app = (
        build_app(job, name, problems)
        if not isinstance(job, ComponentJob)
        else work.built.get(name)
        or build_component(job, name, work.directory, home.root, work.calls, problems)
    )
    defaults = home.config.options.get(job.scheduler, {})
    app, cfg = check_options(job, app, defaults, work.schedulers, work.rules, work.directory, problems)
    lifecycle = build_lifecycle(with_project(job.lifecycle, home.config.lifecycle))
    folders, at = work.folders, (work.directory, home.root, problems)
    workspace = None
    if job.workspace is not None:
        workspace = folders.workspace(job.workspace, work.directory, problems)
    return Launch(
        key=JobKey(job.project or home.config.project, target, name),
        app=app,
        scheduler=job.scheduler,
        cfg=cfg,
        timeout_s=job.timeout,
        workspace=workspace,
        lifecycle=lifecycle,
        trigger_digest=folders.trigger_digest(lifecycle.rerun_on, *at) if lifecycle.rerun_on else "",
        inputs=tuple(job.inputs),
        inputs_digest=folders.inputs_digest(job.inputs, *at) if job.inputs else "",
        caps=home.config.caps,
        budget=home.config.budgets.get(target, home.config.budgets.get("", NO_BUDGET)),
        notify=home.config.notify,
        enabled=job.enabled,
        needs=needs,
        description=job.description,
        root=home.root,
        file=os.path.relpath(work.path, home.root).replace(os.sep, "/"),
        origin=home.origin,
    )


def build_needs(
    given: Mapping[str, NeedSpec | None] | Sequence[str], job: str, references: References
) -> tuple[Need, ...]:
    """Return the needs of a job in the order of the file, without names that hold a placeholder."""
    problems = references.problems
    found: dict[str, Need] = {}
    entries: list[tuple[str, NeedSpec | None, Path]]
    if isinstance(given, Mapping):
        entries = [(references.job_name(key, ("needs", key)), given[key], ("needs", key)) for key in given]
    else:
        entries = [(name, None, ("needs", index)) for index, name in enumerate(given)]
    at: At = "key" if isinstance(given, Mapping) else "value"
    for name, spec, path in entries:
        if not problems.is_sound(path):
            continue
        if not re.fullmatch(LABEL[1:-1], name):
            bad_label(path, name, "job", problems, at_key=at == "key")
        elif name == job:
            message = f"job `{job}` needs itself"
            problems.add(path, "needs-cycle", message, at=at, label="name another job")
        elif name in found:
            first = problems.place(problems.needs[name][0], "the other one is here", at=at)
            message = f"job `{name}` stands twice in `needs`"
            problems.add(path, "duplicate-key", message, at=at, label="delete one of them", related=(first,))
        else:
            found[name] = Need(name, spec is None or spec.rerun is None)
            problems.needs[name] = path, at
    return tuple(found.values())


_PART = re.compile(r'\["((?:[^"\\]|\\.)*)"\]|\[([^\]]*)\]|([^.\[\]]+)')
"""A part of a path as plans write it: `metadata["a.b"]`, `args[3]`, `env`."""


class Origin(NamedTuple):
    """The origin of a value.

    Attributes:
        file, line: the place of its text; "" and 0 for a default of the language.
        layer: "file", "parent", "target", "project" (launcher.toml), "default".
        through: sentences about the variables, axes and commits that it refers to.
    """

    file: str
    line: int
    layer: str
    through: tuple[str, ...] = ()

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.file else "default"
        return "; ".join([place, *self.through])

    def to_json(self) -> dict[str, Any]:
        place = {"file": self.file, "line": self.line} if self.file else {}
        return {"layer": self.layer, **place, **({"through": list(self.through)} if self.through else {})}


@dataclass(frozen=True, slots=True)
class Trace:
    """Finds the origins of the values of one launch; `facts` has the places of references, needs, outputs."""

    facts: Collector
    variant: Variant
    config: Config
    scheduler: str

    @property
    def document(self) -> Document:
        return self.variant.document

    def origin(self, path: Path) -> Origin:
        """Return the origin of the value at a path of the job file: ("roles", "trainer", "image")."""
        if path[-1:] == ("memMB",) and not _holds(self.document.value, path):
            path = (*path[:-1], "memory")
        if path[-1:] == ("gpu_type",) and not _holds(self.document.value, path):
            path = (*path[:-1], "capabilities", "gpu_type")
        if path[:1] == ("needs",):
            # A matrix in `needs` means all of its jobs.
            path = path[:2] if _holds(self.document.value, path[:2]) else ("needs",)
        if path[:1] == ("roles",) and path[2:3] in (("entrypoint",), ("args",)):
            script = (*path[:2], "run")
            path = script if _holds(self.document.value, script) else path
        if _holds(self.document.value, path):
            at = self.document.value_range(path)
            is_target = any(text.holds(at) for text in self.variant.inside)
            notes = (f"target `{self.variant.target}`",) if is_target else ()
            layer = "target" if is_target else self._layer(at)
            names, known = self.facts.sources.get(path, ()), self.facts.definitions
            through = (known[name][2] if name in known else f"`$<{name}>`" for name in names)
            return Origin(at.source.file, at.line, layer, (*notes, *through))
        return self._component(path) or self._project(path) or Origin("", 0, "default")

    def shared_line(self, path: str) -> str:
        """Return `launcher.toml:12` for a value from a layer below the job's file; "" for other values."""
        keys = tuple(quoted or index or key for quoted, index, key in _PART.findall(path))
        origin = self.origin(tuple(int(key) if key.isdecimal() else key for key in keys))
        return f"{origin.file}:{origin.line}" if origin.file not in ("", self.document.source.file) else ""

    def _layer(self, at: Range) -> str:
        if at.source is self.document.source:
            return "file"
        project = self.config.shared
        return "project" if project is not None and at.source is project.source else "parent"

    def _component(self, path: Path) -> Origin | None:
        """Return the origin in a component call: the argument with the field's name, else the component."""
        value = self.document.value or {}
        name = value.get("component")
        if path[:1] != ("roles",) or name is None:
            return None
        named = ("args", *path[2:3])
        at = self.origin(named if len(named) > 1 and _holds(value, named) else ("component",))
        return at._replace(through=(f"component `{name}`", *at.through))

    def _project(self, path: Path) -> Origin | None:
        """Return the origin in launcher.toml, for the project, policies and options of the scheduler."""
        document = self.config.document
        where: Path = ("schedulers", self.scheduler, *path[1:]) if path[:1] == ("cfg",) else path
        if document is None or path[:1] not in (("cfg",), ("lifecycle",), ("project",)):
            return None
        if not _holds(document.value, where):
            return None
        return Origin(document.source.file, document.value_range(where).line, "project")


def _holds(value: Any, path: Path) -> bool:
    """Whether `value` holds `path`, by itself or within a text such as `gpu.small` or `type=bind,…`."""
    for segment in path:
        is_item = isinstance(value, list) and isinstance(segment, int) and segment < len(value)
        if not is_item and not (isinstance(value, dict) and segment in value):
            return isinstance(value, str)
        value = value[segment]
    return True
