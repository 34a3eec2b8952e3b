"""launcher.toml: what the job files of a project have in common."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from json import dumps
from typing import Any

from pydantic import ValidationError

from launcher.jobfile.compile.exclude import wrong_pattern
from launcher.jobfile.compile.options import Schedulers, check_option
from launcher.jobfile.diagnostics.diagnostic import Diagnostic
from launcher.jobfile.messages.collector import Collector
from launcher.jobfile.messages.names import got, listing, suggest
from launcher.jobfile.messages.wording import report
from launcher.jobfile.model.base import LABEL
from launcher.jobfile.model.job_file import LifecycleSpec, QueueSpec
from launcher.jobfile.text.document import Document
from launcher.jobfile.text.parse import parse
from launcher.jobfile.text.source import read_source
from launcher.specs.launch import NO_CAPS, Caps
from launcher.specs.projectfile import QUEUE, faults

_RULE = "lower-case letters, digits and `-`, at most 63, none of them `-` at either end"


@dataclass(frozen=True, slots=True)
class Config:
    """A launcher.toml without what is wrong in it.

    Attributes:
        project: of the job files that name none.
        target: the one chosen where `--target` is not given.
        options: scheduler → run options that `cfg` of a job file lies over.
        lifecycle: policies that those of a job file lie over.
        caps: how much of a machine its jobs take together.
        document: gives the places of all that; None where there is no file.
        problems: what is wrong with it.
    """

    project: str | None = None
    target: str | None = None
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    lifecycle: LifecycleSpec = field(default_factory=LifecycleSpec.model_construct)
    caps: Caps = NO_CAPS
    document: Document | None = None
    problems: tuple[Diagnostic, ...] = ()


def read_config(file: str, path: str, schedulers: Schedulers | None, *, components: bool = True) -> Config:
    """The configuration at `path`, shown to the user as `file`.

    Args:
        components: whether the defaults of components are checked; that imports packages they are in.
    """
    source = read_source(file, path)
    if isinstance(source, Diagnostic):
        return Config(problems=(source,))
    if not re.sub(r"(?m)^\s*#.*$", "", source.text).strip():
        return Config()
    document = parse(source)
    problems = Collector(document, document.problems)
    value = document.value or {}
    _check_fields(value, schedulers, problems, components)
    _check_exclude(value.get("exclude", []), problems)
    return Config(
        project=_label("project", value, problems),
        target=_label("target", value, problems),
        options=dict(_options(value.get("schedulers", {}), schedulers, problems)),
        lifecycle=_lifecycle(value.get("lifecycle", {}), problems),
        caps=_caps(value.get("queue", {}), problems),
        document=document,
        problems=tuple(problems.found),
    )


def _check_fields(
    value: Mapping[str, Any], schedulers: Schedulers | None, problems: Collector, is_looked_up: bool
) -> None:
    found = [*faults(value, schedulers)]
    components = value.get("components")
    if components and isinstance(components, dict) and is_looked_up:
        from launcher.components.finder import unknown_defaults

        found += unknown_defaults(components)
    for fault in found:
        label = fault.remedy or suggest(fault.path[-1], fault.known)
        hint = listing("there are", fault.known)
        problems.add(fault.path, fault.code, fault.message, at="key", label=label, hint=hint)


def _check_exclude(value: Any, problems: Collector) -> None:
    """What is found by it is `discover`'s to say."""
    if not isinstance(value, list):
        label = f"write [{dumps(value)}]" if isinstance(value, str) else 'such as ["tests/bad"]'
        problems.add(("exclude",), "wrong-type", f"`exclude` must be a list, not {got(value)}", label=label)
        return
    before = len(problems.found)
    for place, pattern in enumerate(value):
        if not isinstance(pattern, str):
            message = f"a pattern of `exclude` must be text, not {got(pattern)}"
            problems.add(("exclude", place), "wrong-type", message)
        elif wrong := wrong_pattern([pattern]):
            hint = "patterns are those of .dockerignore, relative to this file"
            problems.add(("exclude", place), "invalid-value", f"`{pattern[:80]}`: {wrong}", hint=hint)
    if len(problems.found) == before and (wrong := wrong_pattern(value)):
        problems.add(("exclude",), "invalid-value", f"`exclude`: {wrong}", hint="name folders in it")


def _label(name: str, value: Mapping[str, Any], problems: Collector) -> str | None:
    given = value.get(name)
    if isinstance(given, str) and re.fullmatch(LABEL[1:-1], given):
        return given
    if isinstance(given, str):
        problems.add((name,), "invalid-name", f"`{given[:80]}` cannot name a {name}", hint=_RULE)
    elif given is not None:
        problems.add((name,), "wrong-type", f"`{name}` must be text, not {got(given)}")
    return None


def _options(
    value: Any, schedulers: Schedulers | None, problems: Collector
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The run options of each scheduler that are right."""
    for name, options in value.items() if isinstance(value, dict) else ():
        if not isinstance(options, dict):
            continue
        if schedulers is None:
            yield name, dict(options)
        elif name in schedulers:
            opts, path = schedulers[name](), ("schedulers", name)
            right = {
                key: given
                for key, given in options.items()
                if check_option(name, key, given, opts, problems, (*path, key))
            }
            yield name, right


def _lifecycle(value: Any, problems: Collector) -> LifecycleSpec:
    try:
        return LifecycleSpec.model_validate(value)
    except ValidationError as error:
        report(error.errors(include_url=False), value, problems, ("lifecycle",))
        return LifecycleSpec()


def _caps(value: Any, problems: Collector) -> Caps:
    """`faults` says which entries there are."""
    known = {key: value[key] for key in QUEUE if key in value} if isinstance(value, dict) else {}
    try:
        given = QueueSpec.model_validate(known)
    except ValidationError as error:
        report(error.errors(include_url=False), known, problems, ("queue",))
        return NO_CAPS
    return Caps(given.cpu, given.memory, given.gpus, given.max_parallel)
