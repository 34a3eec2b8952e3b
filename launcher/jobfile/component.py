"""A job file that names a component: `component` and `args` → the AppDef that the component makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from launcher.components.build import build
from launcher.components.call import ComponentArgs, arranged, from_document
from launcher.components.component import (
    Component,
    ComponentNotFoundException,
    ComponentValidationException,
)
from launcher.components.defaults import argument_names
from launcher.components.finder import get_component
from launcher.components.signature import ComponentSignatureException, Parameters
from launcher.components.types import type_name
from launcher.components.words import ArgumentProblem
from launcher.errors import LauncherError
from launcher.jobfile.collector import Collector
from launcher.jobfile.document import Path
from launcher.jobfile.model import JobFile
from launcher.jobfile.names import listing, suggest
from launcher.specs import AppDef, check_app
from launcher.specs.difference import first_difference, plain
from launcher.specs.yamltext import to_flow

_COMPONENT: Path = ("component",)
_ARGS: Path = ("args",)


def check_shape(value: dict[str, object], problems: Collector) -> None:
    """A job has roles or a component; arguments and defaults go with the one or the other."""
    if "component" not in value:
        if "args" in value and not problems.is_broken(_ARGS):
            label = "indent it deeper, into a role" if "roles" in value else "add `component`"
            message = "`args` of a job are for its `component`, and it names none"
            problems.add(_ARGS, "unknown-field", message, at="key", label=label)
            problems.broken.add(_ARGS)
        return
    if "roles" in value:
        _conflict("roles", "it makes the roles itself", problems)


def check_defaults(value: Mapping[str, object], problems: Collector) -> None:
    """What `defaults` has is for the roles of the file itself."""
    if "component" in value and "defaults" in value and "roles" not in value:
        _conflict("defaults", "they are for `roles`", problems)


def _conflict(other: str, why: str, problems: Collector) -> None:
    first = problems.place(_COMPONENT, "the component is here")
    message = f"a job with a component has no `{other}`: {why}"
    label = "keep one of them"
    problems.add((other,), "conflicting-fields", message, at="key", label=label, related=(first,))


def arguments_by_name(name: object, values: object) -> str:
    """A hint for `args` that are no mapping, with an argument of the component where it can be looked up."""
    example = "NAME: value"
    if isinstance(name, str) and ":" not in name:
        try:
            names, rest = argument_names(get_component(name)) or ((), None)
        except LauncherError:
            names, rest = (), None
        if isinstance(values, list) and rest:
            example = f"{rest}: {to_flow([str(value) for value in values])}"
        elif names:
            example = f"{names[0]}: …"
    return f"arguments of a component stand by name: `args: {{{example}}}`"


def build_component(job: JobFile, name: str, folder: str, problems: Collector) -> AppDef:
    """The AppDef under the name of one of the file's jobs. What is wrong goes to `problems`.

    Args:
        folder: of the job file; a component file is relative to it.
    """
    nothing = AppDef(name)
    if problems.is_assumed(_COMPONENT):
        return nothing
    before = len(problems.found)
    component = _found(job.component or "", folder, problems)
    if component is None:
        return nothing
    try:
        parameters = component.parameters
    except (ComponentNotFoundException, ComponentSignatureException) as error:
        problems.add(_COMPONENT, "invalid-value", str(error), hint=error.hint or "")
        return nothing
    arguments = from_document(parameters, job.args, lambda path, value: _spelt(path, value, problems))
    for problem in arguments.problems:
        _say(problem, component, parameters, job, problems)
    if len(problems.found) > before or problems.holds_assumed(_ARGS) or problems.holds_broken(_ARGS):
        return nothing  # a placeholder is no value to call a component with
    app = _called(component, arranged(parameters, arguments.values), problems)
    return replace(app, name=name, metadata={**app.metadata, **job.metadata}) if app else nothing


def _found(name: str, folder: str, problems: Collector) -> Component | None:
    try:
        return get_component(name, folder=folder)
    except ComponentNotFoundException as error:
        problems.add(_COMPONENT, "unknown-variant", str(error), label=error.hint or "")
    except ComponentValidationException as error:
        problems.add(_COMPONENT, "invalid-value", f"`{name}` is no component: {error}")
    return None


def _say(
    problem: ArgumentProblem, component: Component, parameters: Parameters, job: JobFile, problems: Collector
) -> None:
    names = list(parameters)
    path: Path = (*_ARGS, problem.name)
    if problem.code == "unknown-field":
        message = f"component `{component.name}` has no argument `{problem.name}`"
        hint = listing("its arguments", names) or "it takes none"
        label = suggest(problem.name, names)
        problems.add(path, problem.code, message, at="key", label=label, hint=hint)
    elif problem.code == "missing-field":
        wanted = type_name(parameters[problem.name].type)
        message = f"component `{component.name}` needs the argument `{problem.name}` ({wanted})"
        at = _ARGS if "args" in (problems.document.value or {}) else _COMPONENT
        label = f"add `{problem.name}` to `args`"
        problems.add(at, problem.code, message, at="key", label=label, hint=problem.hint or "")
    else:
        message = f"argument {problem.message}"
        problems.add((*_ARGS, *problem.path), problem.code, message, hint=problem.hint or "")


def _spelt(path: Path, value: object, problems: Collector) -> str:
    """A number or truth value of an argument as text, as in the arguments of a role."""
    at = (*_ARGS, *path)
    if at in problems.spelt:
        return problems.spelt[at]
    if isinstance(value, bool) and problems.document.source.format == "toml":
        return str(value).lower()
    return problems.document.raw(at)


def _called(component: Component, arguments: ComponentArgs, problems: Collector) -> AppDef | None:
    try:
        app = build(component, arguments)
        first = plain(app)
        changes = first_difference(first, plain(build(component, arguments)))
    except LauncherError as error:
        problems.add(_COMPONENT, "invalid-value", str(error), hint=error.hint or "")
        return None
    if changes:
        message = f"component `{component.name}` makes another app each time it is called: {changes} changes"
        hint = "take the time, or a random number, as an argument: a plan would never come to an end"
        problems.add(_COMPONENT, "invalid-value", message, hint=hint)
        return None
    for found in check_app(app):
        where = ".".join(map(str, found.path))
        message = f"component `{component.name}` makes an app that cannot run: {where}: {found.message}"
        problems.add(_COMPONENT, "invalid-value", message)
    return app
