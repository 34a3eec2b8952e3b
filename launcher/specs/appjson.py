"""An AppDef as JSON and back, field by field: how an app crosses from one process to another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from launcher.specs.app import AppDef, Resource, RetryPolicy, Role
from launcher.specs.canonical import UnstorableValueError, json_value
from launcher.specs.mounts import BindMount, DeviceMount, VolumeMount
from launcher.specs.secret import Secret

_MOUNTS: Mapping[str, type] = {"bind": BindMount, "volume": VolumeMount, "device": DeviceMount}
_SECRET = "secret"


def to_json(app: AppDef) -> dict[str, Any]:
    """All fields of an app without problems (`check_app`). Subclasses become the classes of ours.

    Raises UnstorableValueError for metadata that JSON cannot hold.
    """
    return {
        "name": app.name,
        "roles": [_from_role(role) for role in app.roles],
        "metadata": json_value(app.metadata, "metadata"),
    }


def from_json(value: Any) -> AppDef:
    """The app that `to_json` made the value of.

    Raises ValueError or TypeError for a value of another shape; what the fields hold is for `check_app`.
    """
    parts = _parts(value, AppDef)
    return AppDef(
        parts["name"], [_to_role(role) for role in _list(parts["roles"])], dict(_mapping(parts["metadata"]))
    )


def _from_role(role: Role) -> dict[str, Any]:
    where = f"roles.{role.name}"
    if type(role).pre_proc is not Role.pre_proc:
        message = f"{where}: `{type(role).__name__}.pre_proc` changes the request, and data cannot hold that"
        raise UnstorableValueError(message, hint="launch it from Python, or return a plain Role")
    parts = {field.name: getattr(role, field.name) for field in fields(Role)}
    env = {key: {_SECRET: str(text)} if isinstance(text, Secret) else text for key, text in role.env.items()}
    return {
        **parts,
        "args": list(role.args),
        "env": env,
        "retry_policy": str(role.retry_policy),
        "resource": json_value(_fields_of(role.resource, Resource), f"{where}.resource"),
        "port_map": dict(role.port_map),
        "metadata": json_value(role.metadata, f"{where}.metadata"),
        "mounts": [
            {"type": kind, **_fields_of(mount, cls)}
            for mount in role.mounts
            for kind, cls in _MOUNTS.items()
            if isinstance(mount, cls)
        ],
    }


def _to_role(value: Any) -> Role:
    parts = _parts(value, Role)
    env = {
        key: Secret.parse(text[_SECRET]) if isinstance(text, dict) else text
        for key, text in _mapping(parts["env"]).items()
    }
    mounts = []
    for mount in _list(parts["mounts"]):
        rest = dict(_mapping(mount))
        cls = _MOUNTS[rest.pop("type")]
        mounts.append(cls(**_parts(rest, cls)))
    parts.update(env=env, mounts=mounts, retry_policy=RetryPolicy(parts["retry_policy"]))
    return Role(**{**parts, "resource": Resource(**_parts(parts["resource"], Resource))})


def _fields_of(value: Any, cls: type) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(cls)}


def _parts(value: Any, cls: type) -> dict[str, Any]:
    if not isinstance(value, dict) or value.keys() != {field.name for field in fields(cls)}:
        raise ValueError(f"no {cls.__name__}: {value!r:.80}")
    return dict(value)


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"no mapping: {value!r:.80}")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"no list: {value!r:.80}")
    return value
