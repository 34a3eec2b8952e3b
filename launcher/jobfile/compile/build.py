"""A checked job file → an AppDef and its policies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy

from launcher.jobfile.compile import script
from launcher.jobfile.compile.inputs import triggers
from launcher.jobfile.messages.collector import Collector
from launcher.jobfile.messages.names import listing, suggest
from launcher.jobfile.model.job_file import JobFile, LifecycleSpec
from launcher.jobfile.model.role import (
    BindMount,
    DeviceMount,
    ProbeSpec,
    Resources,
    RoleSpec,
    SecretRef,
    VolumeMount,
)
from launcher.jobfile.text.document import Path
from launcher.specs import NULL_RESOURCE, AppDef, Lifecycle, Resource, RetryPolicy, Role, check_app, mounts
from launcher.specs.check import Problem
from launcher.specs.probe import Condition, Probe
from launcher.specs.resources import UnknownResourceException, get_named_resources, named_resources
from launcher.specs.rolefields import ROLE_FIELDS

# What `specs.check` calls it → what diagnostics call it.
_CODES = {
    "duplicate-destination": "constraint",
    "duplicate-role": "duplicate-key",
    "unusable-name": "invalid-name",
    "unusable-path": "invalid-value",
    "unusable-text": "invalid-value",
}


def build_app(job: JobFile, name: str, problems: Collector) -> AppDef:
    """The AppDef of a job file, under the name of one of its jobs. What its fields do not agree on goes to
    `problems`."""
    roles = [_role(key, role, job, problems) for key, role in job.roles.items()]
    app = AppDef(name=name, roles=roles, metadata=dict(job.metadata), output=job.output)
    for found in as_written(check_app(app), job):
        if problems.holds_assumed(found.path[:2]) or problems.holds_broken(found.path):
            continue  # a placeholder takes part in it, or what it says was said already
        code = "constraint" if found.path[-1:] == ("min_replicas",) else code_of(found)
        at_key = found.code in ("missing-field", "unusable-name", "duplicate-role") or (
            found.path[2:3] == ("depends_on",) and found.code != "constraint"
        )
        problems.add(found.path, code, found.message, at="key" if at_key else "value")
    return app


def code_of(problem: Problem) -> str:
    """What diagnostics call a problem of an app."""
    return _CODES.get(problem.code, problem.code)


def as_written(problems: Iterable[Problem], job: JobFile) -> Iterator[Problem]:
    """The problems of an app under the paths of its job file: those of a command may be of a script."""
    scripted = {name for name, role in job.roles.items() if role.run is not None}
    for problem in problems:
        match problem.path:
            case ("roles", name, "entrypoint" | "args", *_) if name in scripted:
                yield problem._replace(path=("roles", name, "run"))
            case ("roles", str(name), "depends_on", str(other)):
                given = job.roles[name].depends_on if name in job.roles else {}
                is_listed = isinstance(given, list) and other in given
                at = given.index(other) if isinstance(given, list) and is_listed else other
                yield problem._replace(path=("roles", name, "depends_on", at))
            case _:
                yield problem


def build_lifecycle(spec: LifecycleSpec) -> Lifecycle:
    """The policies of a job."""
    return Lifecycle(
        on_change=spec.on_change,
        on_failed=spec.on_failed,
        on_cancelled=spec.on_cancelled,
        on_lost=spec.on_lost,
        max_attempts=spec.max_attempts,
        protect=spec.protect,
        rerun_on=triggers(spec),
        on_edit=spec.on_edit,
        queue=spec.queue,
    )


def with_project(spec: LifecycleSpec, project: LifecycleSpec) -> LifecycleSpec:
    """The policies of a job file over those of its project."""
    said = {name: getattr(spec, name) for name in spec.model_fields_set}
    return project.model_copy(update=said) if said else project


def _role(name: str, role: RoleSpec, job: JobFile, problems: Collector) -> Role:
    entrypoint, *args = script.command(role.run, role.shell) if role.run else (role.entrypoint, *role.args)
    said = {key: copy(getattr(role, key)) for key in RoleSpec.model_fields if key in ROLE_FIELDS}
    said |= {
        "entrypoint": entrypoint or script.UNKNOWN,
        "args": args,
        "env": {
            key: value.secret if isinstance(value, SecretRef) else value for key, value in role.env.items()
        },
        "retry_policy": RetryPolicy(role.retry_policy.upper()),
        "resource": _resource(role.resource, ("roles", name, "resource"), problems),
        "mounts": [_mount(mount) for mount in role.mounts],
        "ready": _probe(role.ready) if role.ready is not None else None,
        "depends_on": _conditions(role.depends_on, job.roles),
    }
    return Role(name=name, **said)


def _probe(spec: ProbeSpec) -> Probe:
    return Probe(spec.port, spec.http, spec.file, tuple(spec.command), spec.every, spec.timeout)


def _conditions(
    given: Mapping[str, Condition] | Sequence[str], roles: Mapping[str, RoleSpec]
) -> dict[str, Condition]:
    """Role that is waited for → its condition. A name alone means `ready` where that role has a probe."""
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
        message = "`memory` and `memMB` say the same thing"
        problems.add(
            (*path, "memMB"),
            "conflicting-fields",
            message,
            at="key",
            label="keep one of them",
            related=(first,),
        )
    memory = spec.memory if spec.memory is not None else spec.memMB
    cpu = -1.0 if spec.cpu is None else spec.cpu
    return Resource(
        cpu=int(cpu) if cpu == int(cpu) else cpu,
        gpu=-1 if spec.gpu is None else spec.gpu,
        memMB=-1 if memory is None else memory,
        capabilities=dict(spec.capabilities),
        devices=dict(spec.devices),
        tags=dict(spec.tags),
    )


def _named_resource(name: str, path: Path, problems: Collector) -> Resource:
    if problems.is_assumed(path):
        return NULL_RESOURCE
    try:
        return get_named_resources(name)
    except UnknownResourceException as error:
        if name in named_resources:  # its plug-in cannot be loaded
            problems.add(path, "invalid-value", str(error))
        else:
            known = [*named_resources]
            hint = listing("such as", [each for each in known if not each.startswith("aws_")])
            message = f"there is no named resource `{name}`"
            problems.add(path, "unknown-variant", message, label=suggest(name, known), hint=hint)
        return NULL_RESOURCE
