"""Validate a job file; build its AppDef, from its roles or its component, and its policies."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from launcher.dataclass import replace
from launcher.jobfile.messages.collector import Collector, listing, suggest
from launcher.jobfile.messages.wording import report, split
from launcher.jobfile.messages.wording_fields import fields_meant, missing_field
from launcher.jobfile.model.job_file import JobFile, LifecycleSpec
from launcher.jobfile.model.role import BindMount, DeviceMount, Resources, RoleSpec, SecretRef, VolumeMount
from launcher.jobfile.model.types import VERSION, Model
from launcher.jobfile.text.document import Path, leaves
from launcher.specs import mounts
from launcher.specs.app import (
    NULL_RESOURCE,
    ROLE_FIELDS,
    AppDef,
    Condition,
    Probe,
    Resource,
    RetryPolicy,
    Role,
)
from launcher.specs.check import Problem, check_app
from launcher.specs.launch import Lifecycle, Trigger
from launcher.specs.resources import GPU_TYPE, UnknownResourceException, get_named_resources, named_resources

# Imported with the first component, since job files without one need no code that calls components.
if TYPE_CHECKING:
    from launcher.components.call import ArgumentProblem
    from launcher.components.calls import Calls
    from launcher.components.evaluate import Evaluation

_COMPONENT: Path = ("component",)
_ARGS: Path = ("args",)
UNKNOWN = "unknown"
"""A stand-in for a missing or wrong program of a role, and for a wrong item of a list: the others keep their
places."""

_COMMANDS: Mapping[str, Sequence[str]] = {"sh": ("sh", "-euc"), "bash": ("bash", "-euo", "pipefail", "-c")}


def script_of(entrypoint: str, args: Sequence[str]) -> dict[str, str] | None:
    """Return the fields `run` and `shell` that make this command; None where it runs no script."""
    for shell, words in _COMMANDS.items():
        if (entrypoint, *args[:-1]) == words and args[-1:]:
            return {"run": args[-1], **({"shell": shell} if shell != "sh" else {})}
    return None


T = TypeVar("T", bound=Model)

_STAND_INS: Mapping[str, Any] = {
    "version": VERSION,
    "name": "unnamed",
    "roles": {"unnamed": {"entrypoint": UNKNOWN}},
    "vars": {},
}
"""Valid values in place of required ones that are missing or wrong."""


def validated(model: type[T], value: Any, problems: Collector, below: Path = ()) -> T:
    """Return the model of a value, whose path in the document is `below`; note its faults.

    A wrong value gives the model of its right parts, so that these are checked too. The other parts become
    `assumed`, and so do the fields that an unknown key may mean.
    """
    is_copy = False
    while True:
        try:
            return model.model_validate(value)
        except ValidationError as error:
            errors = error.errors(include_url=False)
        if not is_copy:
            report(errors, value, problems, below)
            value, is_copy = _copied(value), True
        for kind, path, rest in [(each["type"], *split(each["loc"], value)) for each in errors]:
            path = path or rest
            problems.assumed.add((*below, *path))
            if kind == "extra_forbidden":
                problems.assumed.update(fields_meant((*below, *path), problems))
            if path:
                _remove(value, path)
            else:
                value = {}
            if len(path) == 1 and path[0] in _STAND_INS and path[0] in model.model_fields:
                value[path[0]] = _STAND_INS[path[0]]


def _copied(value: Any) -> Any:
    """Return a value whose mappings and lists are new."""
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    return [*map(_copied, value)] if isinstance(value, list) else value


def _remove(value: dict[str, Any], path: Path) -> None:
    """Remove the entry at a path of a mapping.

    A wrong item of a list becomes a text; where the list takes none, it goes as a whole.
    """
    at, inner = path[-1], value.get(str(path[0]))
    if len(path) > 1 and isinstance(inner, dict):
        _remove(inner, path[1:])
    elif len(path) == 2 and isinstance(inner, list) and isinstance(at, int) and inner[at] != UNKNOWN:
        inner[at] = UNKNOWN
    else:
        value.pop(str(path[0]), None)


def check_shape(value: Mapping[str, Any], problems: Collector) -> None:
    """Note fields of roles beside a component, fields of a component beside roles, and roles without a
    program or with two."""
    is_toml = problems.document.source.format == "toml"
    if "component" not in value:
        if "args" in value and not problems.is_broken(_ARGS):
            deeper = "move it below [roles.NAME]" if is_toml else "indent it deeper, into a role"
            label = deeper if "roles" in value else "add `component`"
            message = "`args` of a job are for its `component`, and it names none"
            problems.add(_ARGS, "unknown-field", message, at="key", label=label, is_final=True)
    elif "roles" in value:
        conflict_of_component("roles", "it makes the roles itself", problems)
    roles = value.get("roles")
    for name, role in roles.items() if isinstance(roles, dict) else ():
        if isinstance(role, dict) and "run" in role:
            _check_script(("roles", name), role, problems)
        elif isinstance(role, dict) and "entrypoint" not in role:
            missing_field(("roles", name), "entrypoint", problems)
            problems.assumed.add(("roles", name, "entrypoint"))


def conflict_of_component(other: str, why: str, problems: Collector) -> None:
    """Note a field that a job with a component cannot have."""
    first = problems.place(_COMPONENT, "the component is here")
    message = f"a job with a component has no `{other}`: {why}"
    label = "keep one of them"
    problems.add((other,), "conflicting-fields", message, at="key", label=label, related=(first,))


def _check_script(at: Path, role: Mapping[str, Any], problems: Collector) -> None:
    for field in ("entrypoint", "args"):
        if field in role:
            first = problems.place((*at, "run"), "the script is here")
            message = f"a role with `run` has no `{field}`: the script is all that it runs"
            label, path = "keep one of them", (*at, field)
            problems.add(path, "conflicting-fields", message, at="key", label=label, related=(first,))
    text, shell = role["run"], role.get("shell", "sh")
    words = text[2:].split("\n")[0].split() if isinstance(text, str) and text.startswith("#!") else []
    program = os.path.basename(words[words[0].endswith("/env") and len(words) > 1]) if words else ""
    if program and shell in (*_COMMANDS,) and program != shell:
        message = f"`{shell}` runs the script, and its first line names `{program}`"
        is_shell = program in _COMMANDS
        label = f"add `{problems.entry('shell', program)}`" if is_shell else "take the line away"
        hint = "" if is_shell else f"or keep it in a file, and name `{program}` in `entrypoint`"
        problems.add((*at, "run"), "constraint", message, label=label, hint=hint)


def build_component(
    job: JobFile, name: str, folder: str, root: str, calls: Calls, problems: Collector
) -> AppDef:
    """Return the component's AppDef under the name of one of the file's jobs. Faults go to `problems`.

    Args:
        folder: of the job file; a component file is relative to it.
        root: the folder that a component file may not leave.
    """
    from launcher.components.evaluate import Call

    nothing = AppDef(name)
    if problems.is_assumed(_COMPONENT):
        return nothing
    # A component cannot be called with a placeholder.
    is_called = problems.is_sound(_ARGS)
    numbers = (path for path, value in leaves(job.args) if isinstance(value, bool | int | float))
    spelt = {path: _spelt((*_ARGS, *path), problems) for path in numbers}
    answer = calls.answer(Call(job.component or "", folder, job.args, spelt, is_called), root)
    if answer is None:
        message = f"component `{job.component}` is not called: only the built-in components may run here"
        hint = "check what it runs, then leave out --no-components (or LAUNCHER_COMPONENTS=never)"
        problems.add(_COMPONENT, "component-refused", message, hint=hint)
        return nothing
    for fault in answer.faults:
        problems.add(_COMPONENT, fault.code, fault.message, label=fault.label, hint=fault.hint)
    for problem in answer.problems:
        _note(problem, answer, problems)
    if answer.app is None:
        return nothing
    output = job.output or answer.app.output
    return replace(answer.app, name=name, metadata={**answer.app.metadata, **job.metadata}, output=output)


def _note(problem: ArgumentProblem, answer: Evaluation, problems: Collector) -> None:
    path: Path = (*_ARGS, problem.name)
    name, hint = problem.name, problem.hint or ""
    if problem.code == "unknown-field":
        message, otherwise = f"component `{answer.name}` has no argument `{name}`", "it takes none"
        title = "its arguments"
        problems.unknown(path, problem.code, message, name, answer.types, title, otherwise=otherwise)
    elif problem.code == "missing-field":
        message = f"component `{answer.name}` needs the argument `{name}` ({answer.types[name]})"
        at = _ARGS if "args" in (problems.document.value or {}) else _COMPONENT
        problems.add(at, problem.code, message, at="key", label=f"add `{name}` to `args`", hint=hint)
    else:
        problems.add((*_ARGS, *problem.path), problem.code, f"argument {problem.message}", hint=hint)


def _spelt(path: Path, problems: Collector) -> str:
    """Return the number or truth value at a path as text, as in the arguments of a role."""
    return problems.spelt[path] if path in problems.spelt else problems.document.raw(path)


# Code of `specs.check` → code of diagnostics.
_CODES = {
    "duplicate-destination": "constraint",
    "duplicate-role": "duplicate-key",
    "unusable-name": "invalid-name",
    "unusable-path": "invalid-value",
    "unusable-text": "invalid-value",
}


def build_app(job: JobFile, name: str, problems: Collector) -> AppDef:
    """Return the AppDef of a job file, under the name of one of its jobs. Contradictions of its fields go to
    `problems`."""
    roles = [_role(key, role, job, problems) for key, role in job.roles.items()]
    app = AppDef(name=name, roles=roles, metadata=dict(job.metadata), output=job.output)
    for found in as_written(check_app(app), job):
        code = "constraint" if found.path[-1:] == ("min_replicas",) else code_of(found)
        is_of_order = found.path[2:3] == ("depends_on",) and found.code != "constraint"
        at_key = is_of_order or found.code in ("missing-field", "unusable-name", "duplicate-role")
        problems.add(found.path, code, found.message, at="key" if at_key else "value", reads=found.reads)
    return app


def code_of(problem: Problem) -> str:
    """Return the code of diagnostics for a problem of an app."""
    return _CODES.get(problem.code, problem.code)


def as_written(problems: Sequence[Problem], job: JobFile) -> Iterator[Problem]:
    """Yield an app's problems with the paths of its job file: a problem of a command may concern a script."""
    scripted = {name for name, role in job.roles.items() if role.run is not None}
    for problem in problems:
        match problem.path:
            case ("roles", name, "entrypoint" | "args", *_) if name in scripted:
                yield problem._replace(path=("roles", name, "run"))
            case ("roles", str(name), "resource", "capabilities", "gpu_type") if _says("gpu_type", name, job):
                yield problem._replace(path=("roles", name, "resource", GPU_TYPE))
            case ("roles", str(name), "resource", "memMB") if _says("memory", name, job):
                yield problem._replace(path=("roles", name, "resource", "memory"))
            case ("roles", str(name), "depends_on", str(other)):
                given = job.roles[name].depends_on if name in job.roles else {}
                is_listed = isinstance(given, list) and other in given
                at = given.index(other) if isinstance(given, list) and is_listed else other
                yield problem._replace(path=("roles", name, "depends_on", at))
            case _:
                yield problem


def _says(field: str, role: str, job: JobFile) -> bool:
    """Whether a role has this field in `resource`."""
    resource = job.roles[role].resource if role in job.roles else None
    return isinstance(resource, Resources) and getattr(resource, field) is not None


def build_lifecycle(spec: LifecycleSpec) -> Lifecycle:
    """Return the policies of a job."""
    plain = {name: getattr(spec, name) for name in LifecycleSpec.model_fields if name != "rerun_on"}
    triggers = (
        Trigger("every_apply") if isinstance(item, str) else Trigger("files", tuple(item.files))
        for item in spec.rerun_on
    )
    return Lifecycle(**plain, rerun_on=tuple(triggers))


def with_project(spec: LifecycleSpec, project: LifecycleSpec) -> LifecycleSpec:
    """Return the policies of a job file, with those of its project as defaults."""
    given = {name: getattr(spec, name) for name in spec.model_fields_set}
    return project.model_copy(update=given) if given else project


_ALIKE = [key for key in RoleSpec.model_fields if key in ROLE_FIELDS]
"""The fields that are equal in a role of a file and in a role of an app."""


def _role(name: str, role: RoleSpec, job: JobFile, problems: Collector) -> Role:
    entrypoint, *args = (*_COMMANDS[role.shell], role.run) if role.run else (role.entrypoint, *role.args)
    given = {key: getattr(role, key) for key in _ALIKE}
    said: dict[str, Any] = {
        **{key: value.copy() if isinstance(value, dict | list) else value for key, value in given.items()},
        "entrypoint": entrypoint or UNKNOWN,
        "args": args,
        "env": {
            key: value.secret if isinstance(value, SecretRef) else value for key, value in role.env.items()
        },
        "retry_policy": RetryPolicy(role.retry_policy.upper()),
        "resource": _resource(role.resource, ("roles", name, "resource"), problems),
        "mounts": [_mount(mount) for mount in role.mounts],
        "ready": role.ready and Probe(**{**dict(role.ready), "command": tuple(role.ready.command)}),
        "depends_on": _conditions(role.depends_on, job.roles),
    }
    return Role(name=name, **said)


def _conditions(
    given: Mapping[str, Condition] | Sequence[str], roles: Mapping[str, RoleSpec]
) -> dict[str, Condition]:
    """Return awaited role → condition. A name alone means `ready` where that role has a probe."""
    if isinstance(given, Mapping):
        return dict(given)
    return {name: "ready" if name in roles and roles[name].ready is not None else "started" for name in given}


def _mount(mount: BindMount | VolumeMount | DeviceMount | mounts.Mount | str) -> mounts.Mount:
    if isinstance(mount, BindMount):
        return mounts.BindMount(mount.src, mount.dst, mount.read_only)
    if isinstance(mount, VolumeMount):
        return mounts.VolumeMount(mount.src, mount.dst, mount.read_only)
    if isinstance(mount, DeviceMount):
        return mounts.DeviceMount(mount.src, mount.dst or mount.src, mount.permissions)
    assert not isinstance(mount, str), "the model has read the text form"
    return mount


def _resource(spec: Resources | str | None, path: Path, problems: Collector) -> Resource:
    if spec is None:
        return NULL_RESOURCE
    if isinstance(spec, str):
        return _named_resource(spec, path, problems)
    if spec.memory is not None and spec.memMB is not None:
        first = problems.place((*path, "memory"), "the other one is here")
        message, label = "`memory` and `memMB` say the same thing", "keep one of them"
        other = (*path, "memMB")
        problems.add(other, "conflicting-fields", message, at="key", label=label, related=(first,))
    memory = spec.memory if spec.memory is not None else spec.memMB
    capabilities = dict(spec.capabilities)
    if spec.gpu_type is not None and capabilities.setdefault(GPU_TYPE, spec.gpu_type) != spec.gpu_type:
        first = problems.place((*path, "capabilities", GPU_TYPE), "the other one is here")
        message, label = "the kind of the GPUs is given twice", "keep one of them"
        problems.add((*path, GPU_TYPE), "conflicting-fields", message, label=label, related=(first,))
    cpu = -1.0 if spec.cpu is None else spec.cpu
    return Resource(
        cpu=int(cpu) if cpu == int(cpu) else cpu,
        gpu=-1 if spec.gpu is None else spec.gpu,
        memMB=-1 if memory is None else memory,
        capabilities=capabilities,
        devices=dict(spec.devices),
        tags=dict(spec.tags),
    )


def _named_resource(name: str, path: Path, problems: Collector) -> Resource:
    if problems.is_assumed(path):
        return NULL_RESOURCE
    try:
        return get_named_resources(name)
    except UnknownResourceException as error:
        if name in named_resources:  # fails when the plug-in of the resource cannot be loaded
            problems.add(path, "invalid-value", str(error))
        else:
            known = [*named_resources]
            hint = listing("such as", [each for each in known if not each.startswith("aws_")])
            message = f"there is no named resource `{name}`"
            problems.add(path, "unknown-variant", message, label=suggest(name, known), hint=hint)
        return NULL_RESOURCE
