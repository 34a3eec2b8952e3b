"""A job file that names a component: `component` and `args` → the AppDef that the component makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from launcher.jobfile.messages.collector import Collector
from launcher.jobfile.messages.names import listing, suggest
from launcher.jobfile.model.job_file import JobFile
from launcher.jobfile.text.document import Path
from launcher.specs import AppDef

# Imported with the first component: a job file without one does not pay for what calls them.
if TYPE_CHECKING:
    from launcher.components.call import ArgumentProblem
    from launcher.components.calls import Calls
    from launcher.components.evaluate import Evaluation

_COMPONENT: Path = ("component",)
_ARGS: Path = ("args",)


def check_shape(value: dict[str, object], problems: Collector) -> None:
    """A job has roles or a component; arguments and defaults go with the one or the other."""
    is_toml = problems.document.source.format == "toml"
    if "component" not in value:
        if "args" in value and not problems.is_broken(_ARGS):
            deeper = "move it below [roles.NAME]" if is_toml else "indent it deeper, into a role"
            label = deeper if "roles" in value else "add `component`"
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


def build_component(
    job: JobFile, name: str, folder: str, root: str, calls: Calls, problems: Collector
) -> AppDef:
    """The AppDef under the name of one of the file's jobs. What is wrong goes to `problems`.

    Args:
        folder: of the job file; a component file is relative to it.
        root: the folder that a component file may not leave.
    """
    from launcher.components.evaluate import Call

    nothing = AppDef(name)
    if problems.is_assumed(_COMPONENT):
        return nothing
    # A placeholder is no value to call a component with.
    is_called = not problems.holds_assumed(_ARGS) and not problems.holds_broken(_ARGS)
    spelt = {path: _spelt(path, value, problems) for path, value in _numbers((), job.args)}
    answer = calls.answer(Call(job.component or "", folder, job.args, spelt, is_called), root)
    if answer is None:
        message = f"component `{job.component}` is not called: only the built-in components may run here"
        hint = "check what it runs, then leave out --no-components (or LAUNCHER_COMPONENTS=never)"
        problems.add(_COMPONENT, "component-refused", message, hint=hint)
        return nothing
    for fault in answer.faults:
        problems.add(_COMPONENT, fault.code, fault.message, label=fault.label, hint=fault.hint)
    for problem in answer.problems:
        _say(problem, answer, problems)
    if answer.app is None:
        return nothing
    output = job.output or answer.app.output
    return replace(answer.app, name=name, metadata={**answer.app.metadata, **job.metadata}, output=output)


def _say(problem: ArgumentProblem, answer: Evaluation, problems: Collector) -> None:
    names = list(answer.types)
    path: Path = (*_ARGS, problem.name)
    if problem.code == "unknown-field":
        message = f"component `{answer.name}` has no argument `{problem.name}`"
        hint = listing("its arguments", names) or "it takes none"
        label = suggest(problem.name, names)
        problems.add(path, problem.code, message, at="key", label=label, hint=hint)
    elif problem.code == "missing-field":
        wanted = answer.types[problem.name]
        message = f"component `{answer.name}` needs the argument `{problem.name}` ({wanted})"
        at = _ARGS if "args" in (problems.document.value or {}) else _COMPONENT
        label = f"add `{problem.name}` to `args`"
        problems.add(at, problem.code, message, at="key", label=label, hint=problem.hint or "")
    else:
        message = f"argument {problem.message}"
        problems.add((*_ARGS, *problem.path), problem.code, message, hint=problem.hint or "")


def _numbers(path: Path, value: Any) -> Iterator[tuple[Path, object]]:
    """The numbers and truth values in a value, each with its path."""
    if isinstance(value, bool | int | float):
        yield path, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _numbers((*path, key), inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _numbers((*path, index), inner)


def _spelt(path: Path, value: object, problems: Collector) -> str:
    """A number or truth value of an argument as text, as in the arguments of a role."""
    at = (*_ARGS, *path)
    if at in problems.spelt:
        return problems.spelt[at]
    if isinstance(value, bool) and problems.document.source.format == "toml":
        return str(value).lower()
    return problems.document.raw(at)
