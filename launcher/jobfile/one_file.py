"""One parsed job file → its launch, or what is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from launcher.jobfile.advice import advise
from launcher.jobfile.build import build_app, build_lifecycle
from launcher.jobfile.collector import Collector
from launcher.jobfile.diagnostics import Diagnostic
from launcher.jobfile.document import Document
from launcher.jobfile.model import JobFile
from launcher.jobfile.model_base import VERSION
from launcher.jobfile.model_vars import VARS
from launcher.jobfile.names import got, show
from launcher.jobfile.options import Schedulers, check_options
from launcher.jobfile.places import JOB, JOB_FIELDS
from launcher.jobfile.project import Home
from launcher.jobfile.references import References
from launcher.jobfile.sound import sound_part
from launcher.jobfile.source import Source
from launcher.jobfile.variables import AnyVar, Inputs, Value, resolve_variables
from launcher.jobfile.wording import report
from launcher.specs import DEFAULT_TARGET, JobKey, Launch


@dataclass(frozen=True, slots=True, kw_only=True)
class FileResult:
    """What came out of one file.

    Attributes:
        launch: None when there is an error.
        declared: the names of its variables; None when the file could not be read that far.
        source: the text, for a problem that is found later: another file with the same job.
    """

    launch: Launch | None = None
    problems: tuple[Diagnostic, ...] = ()
    declared: frozenset[str] | None = None
    source: Source | None = None


def compile_document(
    document: Document, path: str, inputs: Inputs, target: str, schedulers: Schedulers | None, home: Home
) -> FileResult:
    """Compile the document of the job file at `path` (absolute)."""
    problems = Collector(document, document.problems)
    if document.value is None or not _is_known_version(document.value, problems):
        return FileResult(problems=tuple(problems.found))
    value = dict(document.value)
    specs = _definitions(value.pop("vars", {}), problems)
    references = _references(value, specs, inputs, target, home, problems)
    resolved = references.resolve(value, JOB, ())
    job = _validated(resolved, problems)
    launch = _launch(job, path, target, schedulers, home, problems) if job is not None else None
    if not problems.has_errors:
        advise(job, specs, references.used, problems)
    return FileResult(
        launch=None if problems.has_errors else launch,
        problems=tuple(problems.found),
        declared=frozenset(specs),
        source=document.source,
    )


def _is_known_version(value: Mapping[str, Any], problems: Collector) -> bool:
    """False for a later version: then nothing else can be said of the file."""
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


def _definitions(value: Any, problems: Collector) -> dict[str, AnyVar]:
    """The variables that the file declares; without those that are wrong."""
    checked = References(problems, {}).resolve(value, JOB_FIELDS["vars"], ("vars",))
    specs: dict[str, AnyVar] = {}
    parts = checked.items() if isinstance(checked, dict) else ()
    try:
        return VARS.validate_python(checked)
    except ValidationError as error:
        report(error.errors(include_url=False), checked, problems, ("vars",))
    for name, part in parts:
        try:
            specs.update(VARS.validate_python({name: part}))
        except ValidationError:
            continue
    return specs


def _references(
    value: Mapping[str, Any],
    specs: Mapping[str, AnyVar],
    inputs: Inputs,
    target: str,
    home: Home,
    problems: Collector,
) -> References:
    """Everything that a reference of this file can name."""
    values = {f"var.{name}": found for name, found in resolve_variables(specs, inputs, problems).items()}
    declared = problems.document.value or {}
    for name in _names(declared.get("vars")):
        values.setdefault(f"var.{name}", Value(None, ""))  # declared wrongly: reported once, not at every use
    if target != DEFAULT_TARGET:
        message = f"the file declares no target `{target}`"
        problems.add(
            (), "unknown-target", message, at="key", hint=f"leave --target out for `{DEFAULT_TARGET}`"
        )
    job = value.get("name")
    values["job.name"] = Value(job if isinstance(job, str) else None, str(job))
    values["target.name"] = Value(target, target)
    first = References(problems, values)
    project = first.resolve(value.get("project", home.project), JOB_FIELDS["project"], ("project",))
    known = isinstance(project, str) and not problems.is_broken(("project",))
    values["job.project"] = Value(project if known else None, str(project))
    return References(problems, values)


def _names(variables: Any) -> list[str]:
    return [*variables] if isinstance(variables, dict) else []


def _validated(value: dict[str, Any], problems: Collector) -> JobFile | None:
    """The model of a file. Of a wrong one what is left without the wrong parts, so that the rest
    is checked too."""
    if problems.is_broken(("version",)):
        value = {**value, "version": VERSION}
    try:
        return JobFile.model_validate(value)
    except ValidationError as error:
        wrong = report(error.errors(include_url=False), value, problems)
    try:
        return JobFile.model_validate(sound_part(value, wrong))
    except ValidationError:
        return None
    finally:
        problems.assumed.update(path[:3] for path in wrong)


def _launch(
    job: JobFile, path: str, target: str, schedulers: Schedulers | None, home: Home, problems: Collector
) -> Launch:
    cfg = check_options(job.scheduler, job.cfg, job.timeout, schedulers, problems)
    return Launch(
        key=JobKey(job.project or home.project, target, job.name),
        app=build_app(job, problems),
        scheduler=job.scheduler,
        cfg=cfg,
        timeout_s=job.timeout,
        lifecycle=build_lifecycle(job.lifecycle),
        enabled=job.enabled,
        description=job.description,
        root=home.root,
        file=os.path.relpath(path, home.root).replace(os.sep, "/"),
        origin=home.origin,
    )
