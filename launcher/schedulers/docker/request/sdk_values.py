"""Convert values from the form of the Docker SDK's `containers.create` to that of the engine's API. Pure.

Values that both have in the same form need no function. Each function raises TypeError, ValueError, KeyError
or AttributeError for a value of the wrong form.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SIZE = re.compile(r"(-?\d+(?:\.\d+)?)\s*(?:([kmgt])b?|b)?", re.IGNORECASE)
_MOUNT = {"type": "Type", "source": "Source", "target": "Target", "read_only": "ReadOnly"}
_REQUEST = {
    "driver": "Driver",
    "count": "Count",
    "device_ids": "DeviceIDs",
    "capabilities": "Capabilities",
    "options": "Options",
}
_HEALTH = {
    "test": "Test",
    "interval": "Interval",
    "timeout": "Timeout",
    "retries": "Retries",
    "start_period": "StartPeriod",
}


def argv(command: str | Iterable[str]) -> list[str]:
    """A command line as a list; a text is split as a shell does."""
    return shlex.split(command) if isinstance(command, str) else list(command)


def environment(value: Mapping[str, Any] | Iterable[str]) -> dict[str, Any]:
    """Variables by name; None removes one. A list has `NAME=value`. Numbers become text, secrets stay."""
    if not isinstance(value, Mapping):
        value = {name: text if sign else None for name, sign, text in (each.partition("=") for each in value)}
    return {name: each if isinstance(each, str | None) else str(each) for name, each in value.items()}


def labels(value: Mapping[str, str] | Iterable[str]) -> dict[str, str]:
    """Labels by name; a list has names alone."""
    return dict(value) if isinstance(value, Mapping) else dict.fromkeys(value, "")


def size(value: str | int) -> int:
    """A size in bytes, from a number or a text such as `512m`."""
    if not isinstance(value, str):
        return int(value)
    match = _SIZE.fullmatch(value.strip())
    if match is None:
        raise ValueError(f"`{value}` is not a size")
    return int(float(match[1]) * _UNITS[(match[2] or "").lower()])


def mount(value: Mapping[str, Any]) -> dict[str, Any]:
    """The SDK's `Mount`, or plain data: type, source, target and read_only."""
    return {"ReadOnly": False, **_renamed(value, _MOUNT, "docker.types.Mount has more")}


def device(value: str | Mapping[str, Any]) -> dict[str, Any]:
    """`source:destination:permissions`; destination and permissions may be left out."""
    if isinstance(value, Mapping):
        return dict(value)
    source, _, rest = value.partition(":")
    destination, _, permissions = rest.partition(":")
    return {
        "PathOnHost": source,
        "PathInContainer": destination or source,
        "CgroupPermissions": permissions or "rwm",
    }


def device_request(value: Mapping[str, Any]) -> dict[str, Any]:
    return _renamed(value, _REQUEST)


def ulimit(value: Mapping[str, Any]) -> dict[str, Any]:
    return _renamed(value, {"name": "Name", "soft": "Soft", "hard": "Hard"})


def log_config(value: Mapping[str, Any]) -> dict[str, Any]:
    return _renamed(value, {"type": "Type", "config": "Config"})


def healthcheck(value: Mapping[str, Any]) -> dict[str, Any]:
    made = _renamed(value, _HEALTH)
    if isinstance(made.get("Test"), str):
        made["Test"] = ["CMD-SHELL", made["Test"]]
    return made


def binds(value: Mapping[str, Any] | Iterable[str]) -> list[str]:
    """`source:destination:mode` of each, from a list of them or a dict `{source: {"bind": …, "mode": …}}`."""
    if not isinstance(value, Mapping):
        return list(value)
    out = []
    for source, to in value.items():
        if isinstance(to, str):
            to = {"bind": to}
        mode = to.get("mode", "ro" if to.get("ro") else "rw")
        spread = to.get("propagation")
        out.append(f"{source}:{to['bind']}:{mode}" + (f",{spread}" if spread else ""))
    return out


def ports(value: Mapping[Any, Any]) -> dict[str, list[dict[str, str]]]:
    """`{"80/tcp": 8080}`: a port of the host, None for any, (address, port), or a list of these."""
    return {
        key if "/" in key else f"{key}/tcp": [
            _binding(each) for each in (at if isinstance(at, list) else [at])
        ]
        for key, at in ((str(key), at) for key, at in value.items())
    }


def _binding(at: Any) -> dict[str, str]:
    """An empty port lets the engine pick one."""
    if isinstance(at, Mapping):
        return dict(at)
    address, port = ("", at) if not isinstance(at, tuple) else (*at, None)[:2]
    return {"HostIp": address, "HostPort": "" if port is None else str(port)}


def tmpfs(value: Mapping[str, str] | Iterable[str]) -> dict[str, str]:
    """Options by path; a list has `path:options`."""
    return dict(value) if isinstance(value, Mapping) else dict(each.partition(":")[::2] for each in value)


def hosts(value: Mapping[str, str] | Iterable[str]) -> list[str]:
    """`name:address` of each."""
    return _pairs(sorted(value.items())) if isinstance(value, Mapping) else list(value)


def links(value: Mapping[str, str] | Iterable[tuple[str, str]]) -> list[str]:
    """`container:alias` of each."""
    return _pairs(sorted(value.items()) if isinstance(value, Mapping) else value)


def _pairs(value: Iterable[tuple[str, str]]) -> list[str]:
    return [f"{name}:{other or name}" for name, other in value]


def texts(value: Iterable[object]) -> list[str]:
    return [str(each) for each in value]


def texts_by_name(value: Mapping[str, object]) -> dict[str, str]:
    return {name: str(each) for name, each in value.items()}


def names(value: str | Iterable[str]) -> list[str]:
    """A list, or a text with commas."""
    return value.split(",") if isinstance(value, str) else list(value)


def _renamed(value: Mapping[str, Any], to: Mapping[str, str], more: str = "") -> dict[str, Any]:
    """Plain data with the engine's names; types of the SDK have these names already and stay as they are."""
    if any(name[:1].isupper() for name in value):
        return dict(value)
    unknown = sorted(value.keys() - to.keys())
    if unknown:
        known = f"known are {', '.join(to)}" + (f"; {more}" if more else "")
        raise ValueError(f"unknown key `{unknown[0]}`: {known}")
    return {to[name]: each for name, each in value.items()}
