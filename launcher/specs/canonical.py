"""The normal form "lr1" of a launch, independent of engine, file, host and formatting, and its digest.

A document is a JSON object. It has no nulls, no empty containers and no defaults; amounts are
integers (bytes, millicores); lists keep their order where order means something, mounts are sorted by
destination; a secret is its reference, a workspace the hash of what it holds. Values in metadata and
options are the user's, and stay as given. Always present: scheduler, roles[].name, roles[].entrypoint.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from json import JSONEncoder
from typing import Any

from launcher.dataclass import replace
from launcher.errors import LauncherError
from launcher.hashes import sha256
from launcher.specs.app import (
    ALWAYS,
    DEPENDENCIES,
    DOCUMENT_FIELDS,
    JSON,
    MOUNTS,
    NULL_RESOURCE,
    OPTIONS,
    PROBE,
    ROLE_FIELDS,
    VARIABLES,
    AppDef,
    CfgVal,
    Probe,
    Resource,
    RetryPolicy,
    Role,
)
from launcher.specs.launch import Launch, ProjectRef, WorkspaceRef
from launcher.specs.mounts import BindMount, DeviceMount, Mount, VolumeMount
from launcher.specs.secret import Secret, reference_in

VERSION = "lr1"

_ENCODER = JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_MIB = 2**20
_MOUNT_DEFAULTS: dict[str, Any] = {"read_only": False, "permissions": "rwm"}
_FIELDS = frozenset({"scheduler", "cfg", "roles", "timeout_s", "workspace", "output"})


class UnstorableValueError(LauncherError, TypeError):
    """A value has no JSON form, so it can be neither compared nor stored."""


def document(launch: Launch) -> dict[str, Any]:
    """The normal form of a launch. Raises UnstorableValueError for metadata that JSON cannot hold."""
    return _normal(
        launch.app, launch.scheduler, launch.cfg, launch.timeout_s, _from_workspace(launch.workspace)
    )


def document_of(app: AppDef, cfg: Mapping[str, CfgVal], scheduler: str) -> dict[str, Any]:
    """The normal form of an app without a job. Role metadata that JSON cannot hold is left out."""
    try:
        return _normal(app, scheduler, cfg, None, None)
    except UnstorableValueError:  # role metadata may hold any object; it does not affect the run
        bare = replace(app, roles=[replace(role, metadata={}) for role in app.roles])
        return _normal(bare, scheduler, cfg, None, None)


def digest(document: Mapping[str, Any]) -> str:
    """ "lr1:sha256:<hex>" of a document."""
    text = _ENCODER.encode(dict(document))
    return f"{VERSION}:sha256:{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def digest_of(launch: Launch) -> str:
    """The digest of a launch's document. Raises UnstorableValueError."""
    return launch.digest or digest(document(launch))


def app_from_document(document: Mapping[str, Any], name: str, metadata: Mapping[str, Any]) -> AppDef:
    """Return the AppDef of a document, which does not hold the app's name and metadata."""
    roles = [_to_role(role) for role in document["roles"]]
    return AppDef(name=name, roles=roles, metadata=dict(metadata), output=bool(document.get("output")))


def renormalise(document: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a document of an earlier version to the present form. Fields of later versions stay."""
    app = app_from_document(document, "", {})
    made = _normal(
        app,
        document["scheduler"],
        document.get("cfg", {}),
        document.get("timeout_s"),
        document.get("workspace"),
    )
    for role, stored in zip(made["roles"], document["roles"], strict=True):
        role.update({key: value for key, value in stored.items() if key not in ROLE_FIELDS})
    extra = {key: value for key, value in document.items() if key not in _FIELDS}
    return {**made, **extra}


def _normal(
    app: AppDef,
    scheduler: str,
    cfg: Mapping[str, Any],
    timeout_s: int | None,
    workspace: Mapping[str, Any] | None,
) -> dict[str, Any]:
    return {
        "scheduler": scheduler,
        "roles": [_from_role(role) for role in app.roles],
        **_compact(
            {
                "cfg": _from_options(cfg, "cfg"),
                "timeout_s": timeout_s,
                "workspace": workspace,
                "output": app.output or None,
            }
        ),
    }


def _from_workspace(workspace: WorkspaceRef | None) -> dict[str, Any] | None:
    if workspace is None:
        return None
    if not workspace.projects:
        return {"path": workspace.path, "digest": workspace.digest}
    projects = {each.path: {"target": each.target, "digest": each.digest} for each in workspace.projects}
    return {"projects": projects}


def to_workspace(fields: Mapping[str, Any] | None) -> WorkspaceRef | None:
    """Return the workspace of a document, from its fields."""
    if fields is None:
        return None
    if "projects" not in fields:
        return WorkspaceRef(fields["path"], fields["digest"])
    projects = (ProjectRef(path, **each) for path, each in fields["projects"].items())
    return WorkspaceRef("", "", tuple(projects))


def _from_options(cfg: Mapping[str, Any], path: str) -> Any:
    # 10 and 10.0 are one value of an option: both are converted to the option's type.
    given = {
        key: int(value) if isinstance(value, float) and value.is_integer() else value
        for key, value in cfg.items()
        if value is not None
    }
    return json_value(given, path)


_EMPTY: tuple[Any, ...] = (None, {}, [])


def _compact(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields without nulls and empty containers."""
    return {key: value for key, value in fields.items() if value not in _EMPTY}


def _from_role(role: Role) -> dict[str, Any]:
    made: dict[str, Any] = {"name": role.name, "entrypoint": role.entrypoint}
    for name, default, write in _WRITTEN:
        value = getattr(role, name)
        if value in _EMPTY:
            continue
        if write is not None:
            value = write(value, f"roles.{role.name}.{name}")
        if value not in _EMPTY and value != default:
            made[name] = value
    return made


def _to_role(fields: Mapping[str, Any]) -> Role:
    said = {name: read(fields[name]) if read else fields[name] for name, read in _READ if name in fields}
    return Role(**{"image": "", **said})


def _from_resource(resource: Resource) -> dict[str, Any]:
    """Leave out -1, which means "not given"."""
    return _compact(
        {
            "cpu_millis": None if resource.cpu == -1 else round(resource.cpu * 1000),
            "gpu": None if resource.gpu == -1 else resource.gpu,
            "memory_bytes": None if resource.memMB == -1 else round(resource.memMB * _MIB),
            "capabilities": json_value(resource.capabilities, "resource.capabilities"),
            "devices": dict(resource.devices),
            "tags": json_value(resource.tags, "resource.tags"),
        }
    )


def _to_resource(fields: Mapping[str, Any] | None) -> Resource:
    if not fields:
        return NULL_RESOURCE
    return Resource(
        cpu=_in_units(fields.get("cpu_millis"), 1000),
        gpu=fields.get("gpu", -1),
        memMB=_in_units(fields.get("memory_bytes"), _MIB),  # type: ignore[arg-type]  # whole unless asked for
        capabilities=json_value(fields.get("capabilities", {}), "resource.capabilities"),
        devices=dict(fields.get("devices", {})),
        tags=json_value(fields.get("tags", {}), "resource.tags"),
    )


def _in_units(amount: int | None, unit: int) -> float:
    """Return an amount in units, as an int where it is whole."""
    if amount is None:
        return -1
    return amount / unit if amount % unit else amount // unit


def _from_mount(mount: Mount) -> dict[str, Any]:
    if isinstance(mount, DeviceMount):
        fields: dict[str, Any] = {"type": "device", "src": mount.src_path, "permissions": mount.permissions}
    elif isinstance(mount, VolumeMount):
        fields = {"type": "volume", "src": mount.src, "read_only": mount.read_only}
    else:
        fields = {"type": "bind", "src": mount.src_path, "read_only": mount.read_only}
    made = {**fields, "dst": mount.dst_path}
    return {key: value for key, value in made.items() if _MOUNT_DEFAULTS.get(key) != value}


def _to_mount(fields: Mapping[str, Any]) -> Mount:
    src, dst = fields["src"], fields["dst"]
    if fields["type"] == "device":
        return DeviceMount(src, dst, fields.get("permissions", "rwm"))
    if fields["type"] == "volume":
        return VolumeMount(src, dst, fields.get("read_only", False))
    return BindMount(src, dst, fields.get("read_only", False))


def json_value(value: Any, path: str) -> Any:
    """Return a copy of the value as read back from JSON: lists for tuples.

    Raises UnstorableValueError for what JSON cannot hold.
    """
    if type(value) is str:
        return value
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise UnstorableValueError(f"{path}: every key must be text, got {sorted(map(repr, value))}")
        return {key: json_value(inner, f"{path}.{key}") for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(inner, f"{path}[{index}]") for index, inner in enumerate(value)]
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise UnstorableValueError(f"{path}: want text, numbers, lists and mappings, got {value!r}")


# Kind of a role's field → how a document stores and restores a value; other kinds need no conversion.
WRITERS: Mapping[str, Callable[[Any, str], Any]] = {
    # A reference to a secret is encoded differently from the same text as a literal.
    VARIABLES: lambda value, _: {
        key: {"secret": str(text)} if isinstance(text, Secret) else text for key, text in value.items()
    },
    JSON: json_value,
    OPTIONS: _from_options,
    MOUNTS: lambda value, _: sorted(map(_from_mount, value), key=lambda mount: str(mount["dst"])),
    "Resource": lambda value, _: _from_resource(value),
    "list[str]": lambda value, _: list(value),
    "dict[str, int]": lambda value, _: dict(value),
    DEPENDENCIES: lambda value, _: dict(value),
    PROBE: lambda value, _: value and value.to_json(),
    "RetryPolicy": lambda value, _: str(value),
}
READERS: Mapping[str, Callable[[Any], Any]] = {
    VARIABLES: lambda value: {key: reference_in(text) or text for key, text in value.items()},
    JSON: lambda value: json_value(value, "metadata"),
    OPTIONS: lambda value: json_value(value, "cfg"),
    MOUNTS: lambda value: [_to_mount(mount) for mount in value],
    "Resource": _to_resource,
    "list[str]": list,
    "dict[str, int]": dict,
    DEPENDENCIES: dict,
    PROBE: Probe.from_json,
    "RetryPolicy": RetryPolicy,
}
_READ = [(each.name, READERS.get(each.kind)) for each in DOCUMENT_FIELDS]
_WRITTEN = [
    (each.name, each.default, WRITERS.get(each.kind)) for each in DOCUMENT_FIELDS if each.name not in ALWAYS
]
