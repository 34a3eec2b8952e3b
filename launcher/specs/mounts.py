"""Mounts of a role and their text form, `type=bind,src=/data,dst=/data,readonly`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import chain
from os.path import expanduser

from launcher.dataclass import dataclass
from launcher.errors import LauncherError
from launcher.text import name_hint


class MountType(str, Enum):
    """The three kinds of mounts."""

    BIND = "bind"
    VOLUME = "volume"
    DEVICE = "device"

    __str__ = str.__str__


@dataclass
class BindMount:
    """A file or folder of the host."""

    src_path: str
    dst_path: str
    read_only: bool = False


@dataclass
class VolumeMount:
    """A named volume of the engine."""

    src: str
    dst_path: str
    read_only: bool = False


@dataclass
class DeviceMount:
    """A device of the host. `permissions` is made of r (read), w (write) and m (mknod)."""

    src_path: str
    dst_path: str
    permissions: str = "rwm"


Mount = BindMount | VolumeMount | DeviceMount


class InvalidMountException(LauncherError, KeyError, ValueError):
    """The text of a mount is wrong."""


_KEYS = {
    "type": "type",
    **dict.fromkeys(("src", "source"), "src"),
    **dict.fromkeys(("dst", "target", "destination"), "dst"),
    **dict.fromkeys(("readonly", "read_only"), "read_only"),
    **dict.fromkeys(("perm", "permissions"), "permissions"),
}
_ALLOWED = {
    "bind": {"type", "src", "dst", "read_only"},
    "volume": {"type", "src", "dst", "read_only"},
    "device": {"type", "src", "dst", "permissions"},
}
_BOOLEANS = {"": True, "true": True, "1": True, "false": False, "0": False}


def parse_mounts(opts: Iterable[str], *, expand_home: bool = True) -> list[Mount]:
    """Read mounts from tokens: ["type=bind", "src=~/data", "dst=/data", "readonly", "type=volume", …].

    Each token is `key` or `key=value`; `type` starts the next mount, whose options may be in the same token:
    "type=bind,src=~/data,dst=/data". A leading `~` of a bind source becomes
    the home folder unless `expand_home` is off. Raises InvalidMountException (a KeyError and a ValueError).
    """
    found: list[dict[str, str]] = []
    # No type has a comma in its name, so a comma ends it and an option follows.
    tokens = (opt.split(",") if opt.lstrip().startswith("type=") else [opt] for opt in opts)
    for opt in chain.from_iterable(tokens):
        key, _, value = opt.partition("=")
        key, value = key.strip(), value.strip()
        if key not in _KEYS:
            raise InvalidMountException(f"unknown mount option `{key}`", hint=name_hint(key, _KEYS))
        if key == "type":
            found.append({})
        elif not found:
            raise InvalidMountException("`type` must be specified first", hint=f"type=bind,{opt}")
        found[-1][_KEYS[key]] = value
    return [_to_mount(fields, expand_home) for fields in found]


def _to_mount(fields: Mapping[str, str], expand_home: bool) -> Mount:
    kind = fields["type"]
    if kind not in _ALLOWED:
        raise InvalidMountException(f"invalid mount type `{kind}`", hint=name_hint(kind, _ALLOWED))
    allowed = _ALLOWED[kind]
    for key in fields:
        if key not in allowed:
            raise InvalidMountException(
                f"a {kind} mount has no `{key}`", hint=f"it has: {', '.join(sorted(allowed))}"
            )
    src = _required(fields, "src")
    if kind == "device":
        permissions = fields.get("permissions", "rwm")
        if not permissions or set(permissions) - set("rwm"):
            raise InvalidMountException(f"permissions are made of r, w and m, got `{permissions}`")
        return DeviceMount(src, fields.get("dst") or src, permissions)
    dst, read_only = _required(fields, "dst"), _read_only(fields)
    if kind == "volume":
        return VolumeMount(src, dst, read_only)
    return BindMount(expanduser(src) if expand_home and src.startswith("~") else src, dst, read_only)


def _required(fields: Mapping[str, str], key: str) -> str:
    if not fields.get(key):
        raise InvalidMountException(f"a {fields['type']} mount needs `{key}`", hint=f"add {key}=…")
    return fields[key]


def _read_only(fields: Mapping[str, str]) -> bool:
    """Read the option `readonly`: the key alone means yes, `readonly=false` means no."""
    value = fields.get("read_only")
    if value is None:
        return False
    if value.lower() not in _BOOLEANS:
        raise InvalidMountException(f"read_only is true or false, got `{value}`")
    return _BOOLEANS[value.lower()]
