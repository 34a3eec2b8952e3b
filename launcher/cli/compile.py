"""`launcher compile`: show the resolved jobs of job files, and the origin of each value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.cli import jobs
from launcher.cli.console import Console
from launcher.dataclass import asdict
from launcher.jobfile.compile.one_job import Trace
from launcher.jobfile.model.role import RoleSpec
from launcher.specs.app import Resource, Role
from launcher.specs.canonical import digest, document
from launcher.specs.launch import Launch, WorkspaceRef
from launcher.specs.resources import GPU_TYPE
from launcher.specs.secret import Secret, hide
from launcher.specs.text import to_yaml
from launcher.text import dotted

USAGE = "compile [FILE…] [OPTIONS]"
HELP = """\
Show the jobs that job files resolve to once targets, defaults, the matrix and
variables are applied, with the origin of each value: a line of the file, the
target's overlay, a variable and where it was set, launcher.toml, or a default.

Macros that are known only at run time, such as $<app_id>, stay as written."""
EXAMPLES = """\
  launcher compile jobs/train.launcher.yaml --target dev
  launcher compile jobs/train.launcher.yaml --var epochs=5
  launcher compile --json jobs/ | jq '.jobs[].digest'"""


def add_arguments(parser: Any) -> None:
    jobs.add_arguments(parser, is_kept=False)
    parser.option("--json", "print the jobs and the origins of their values as JSON")


def run(args: Any, console: Console) -> int:
    result = jobs.compiled(args.files, args)
    launches = jobs.accepted(result, args, console)
    if args.json:
        found = [
            {
                "key": launch.key._asdict(),
                "digest": digest(document(launch)),
                "job": job_fields(launch),
                "origins": origins(launch, result.traces[launch.key]),
            }
            for launch in launches
        ]
        console.json({"version": 1, "jobs": found})
    else:
        texts = (
            f"# {launch.key}  {digest(document(launch))}\n{job_text(launch, result.traces[launch.key])}"
            for launch in launches
        )
        console.print("\n".join(texts), end="")
    return 0


_GAP = "   "
_WIDEST = 60  # longer values do not widen the column of values


def job_fields(launch: Launch) -> dict[str, Any]:
    """Return the fields of a launch under their names in job files: with defaults, without empty fields.

    Hides literals under sensitive-looking names, as plans do.
    """
    lifecycle = {key: value for key, value in asdict(launch.lifecycle).items() if value is not None}
    lifecycle["rerun_on"] = [
        {"files": list(trigger.globs)} if trigger.globs else trigger.kind
        for trigger in launch.lifecycle.rerun_on
    ]
    fields: dict[str, Any] = {
        "name": launch.key.job,
        "project": launch.key.project,
        "target": launch.key.target,
        "description": " ".join(launch.description.split()),
        "needs": _needs(launch),
        "scheduler": launch.scheduler,
        "cfg": dict(launch.cfg),
        "workspace": _workspace(launch.workspace),
        "inputs": list(launch.inputs),
        "roles": {role.name: role_fields(role) for role in launch.app.roles},
        "metadata": dict(launch.app.metadata),
        "timeout": launch.timeout_s,
        "lifecycle": lifecycle,
        "enabled": launch.enabled,
        "max_parallel": launch.max_parallel,
    }
    shown: dict[str, Any] = hide(_without_empty(fields))
    return shown


def _needs(launch: Launch) -> list[str] | dict[str, dict[str, str]]:
    if all(need.rerun for need in launch.needs):
        return [need.job for need in launch.needs]
    return {need.job: {} if need.rerun else {"rerun": "never"} for need in launch.needs}


def _workspace(workspace: WorkspaceRef | None) -> Any:
    if workspace is None or not workspace.projects:
        return workspace and workspace.path
    return {each.path: each.target for each in workspace.projects}


def job_text(launch: Launch, trace: Trace) -> str:
    """The fields of a job, one value per line, each followed by its origin."""
    lines = list(_lines(job_fields(launch), (), trace, ""))
    width = max(len(text) for text, _ in lines if len(text) <= _WIDEST)
    return "".join(f"{text:{width}}{_GAP}# {origin}\n" if origin else f"{text}\n" for text, origin in lines)


def origins(launch: Launch, trace: Trace) -> dict[str, Any]:
    """Return path of each value → its origin, as JSON."""
    return {
        dotted(path): {"layer": "target"} if path == ("target",) else trace.origin(path).to_json()
        for path in _leaves(job_fields(launch), ())
    }


def _leaves(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    """Return the path of every value that holds no others."""
    if value and isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(inner, (*path, key))
    else:
        yield path


def role_fields(role: Role) -> dict[str, Any]:
    """Return the fields of a role under their names in job files."""
    values = {name: getattr(role, name) for name in RoleSpec.model_fields if hasattr(role, name)}
    values |= {
        "env": {
            name: {"secret": str(value)} if isinstance(value, Secret) else value
            for name, value in role.env.items()
        },
        "retry_policy": str(role.retry_policy).lower(),
        "resource": _resource(role.resource),
        "mounts": [_mount(mount) for mount in role.mounts],
        "ready": role.ready and role.ready.to_json(),
    }
    return _without_empty({name: _copied(value) for name, value in values.items()})


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, list | tuple) else value


def _resource(resource: Resource) -> dict[str, Any]:
    amounts = {"cpu": resource.cpu, "gpu": resource.gpu, "memMB": resource.memMB}
    capabilities = dict(resource.capabilities)
    kind = capabilities.pop(GPU_TYPE, None)
    more = {"capabilities": capabilities, "devices": resource.devices, "tags": resource.tags}
    said = {key: n for key, n in amounts.items() if n != -1}
    return _without_empty({**said, GPU_TYPE: kind, **more})


def _mount(mount: Any) -> dict[str, Any]:
    kind = type(mount).__name__.removesuffix("Mount").lower()
    fields = {"type": kind, "src": mount.src if kind == "volume" else mount.src_path, "dst": mount.dst_path}
    if kind == "device":
        return {**fields, "permissions": mount.permissions}
    return {**fields, "read_only": mount.read_only}


def _without_empty(fields: dict[str, Any]) -> dict[str, Any]:
    empty: tuple[Any, ...] = (None, "", {}, [])
    return {key: value for key, value in fields.items() if value not in empty}


def _lines(value: Any, path: tuple[str | int, ...], trace: Trace, indent: str) -> Iterator[tuple[str, str]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in pairs:
        head = f"{indent}- " if isinstance(key, int) else f"{indent}{_scalar(str(key))}:"
        below = (*path, key)
        if isinstance(inner, dict | list) and inner:
            if isinstance(key, int):  # `- type: bind`: the item begins on the line of its dash
                first, *rest = _lines(inner, below, trace, indent + "  ")
                yield head + first[0].strip(), first[1]
                yield from rest
            else:
                yield head, ""
                yield from _lines(inner, below, trace, indent + "  ")
        else:
            text = _scalar(inner)
            origin = f"target `{trace.variant.target}`" if below == ("target",) else str(trace.origin(below))
            yield (head + text if isinstance(key, int) else f"{head} {text}"), origin


def _scalar(value: Any) -> str:
    return to_yaml(value).rstrip("\n")
