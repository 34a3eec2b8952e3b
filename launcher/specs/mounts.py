"""Mounts of a role and their text form, `type=bind,src=/data,dst=/data,readonly`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from os.path import expanduser

from launcher.dataclass import dataclass
from launcher.errors import LauncherError
from launcher.text import name_hint


class MountType(str, Enum):
    """The three kinds of mounts."""

    BIND = "bind"
    VOLUME = "volume"
    DEVICE = "device"

    def __str__(self) -> str:
        return self.value


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
    "src": "src",
    "source": "src",
    "dst": "dst",
    "target": "dst",
    "destination": "dst",
    "readonly": "read_only",
    "read_only": "read_only",
    "perm": "permissions",
    "permissions": "permissions",
}
_BOOLEANS = {"": True, "true": True, "1": True, "false": False, "0": False}


def parse_mounts(opts: Iterable[str], *, expand_home: bool = True) -> list[Mount]:
    """Read mounts from tokens: ["type=bind", "src=~/data", "dst=/data", "readonly", "type=volume", …].

    Each token is `key` or `key=value`; `type` starts the next mount, and may bring the rest of it along:
    "type=bind,src=~/data,dst=/data". A leading `~` of a bind source becomes
    the home folder unless `expand_home` is off. Raises InvalidMountException (a KeyError and a ValueError).
    """
    found: list[dict[str, str]] = []
    for opt in _tokens(opts):
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


def _tokens(opts: Iterable[str]) -> Iterator[str]:
    for opt in opts:
        # No type has a comma in its name: what follows one is the next option.
        yield from opt.split(",") if opt.lstrip().startswith("type=") else [opt]


def _to_mount(fields: Mapping[str, str], expand_home: bool) -> Mount:
    kind = fields["type"]
    if kind not in _MAKERS:
        raise InvalidMountException(f"invalid mount type `{kind}`", hint=name_hint(kind, _MAKERS))
    make, allowed = _MAKERS[kind]
    for key in fields:
        if key not in allowed:
            raise InvalidMountException(
                f"a {kind} mount has no `{key}`", hint=f"it has: {', '.join(sorted(allowed))}"
            )
    mount = make(fields)
    if expand_home and isinstance(mount, BindMount) and mount.src_path.startswith("~"):
        mount.src_path = expanduser(mount.src_path)
    return mount


def _bind(fields: Mapping[str, str]) -> Mount:
    return BindMount(_required(fields, "src"), _required(fields, "dst"), _read_only(fields))


def _volume(fields: Mapping[str, str]) -> Mount:
    return VolumeMount(_required(fields, "src"), _required(fields, "dst"), _read_only(fields))


def _device(fields: Mapping[str, str]) -> Mount:
    src = _required(fields, "src")
    permissions = fields.get("permissions", "rwm")
    if not permissions or set(permissions) - set("rwm"):
        raise InvalidMountException(f"permissions are made of r, w and m, got `{permissions}`")
    return DeviceMount(src, fields.get("dst") or src, permissions)


_Maker = Callable[[Mapping[str, str]], Mount]
_MAKERS: dict[str, tuple[_Maker, frozenset[str]]] = {
    "bind": (_bind, frozenset({"type", "src", "dst", "read_only"})),
    "volume": (_volume, frozenset({"type", "src", "dst", "read_only"})),
    "device": (_device, frozenset({"type", "src", "dst", "permissions"})),
}


def _required(fields: Mapping[str, str], key: str) -> str:
    if not fields.get(key):
        raise InvalidMountException(f"a {fields['type']} mount needs `{key}`", hint=f"add {key}=…")
    return fields[key]


def _read_only(fields: Mapping[str, str]) -> bool:
    """The key alone means yes; `readonly=false` means no."""
    value = fields.get("read_only")
    if value is None:
        return False
    if value.lower() not in _BOOLEANS:
        raise InvalidMountException(f"read_only is true or false, got `{value}`")
    return _BOOLEANS[value.lower()]
