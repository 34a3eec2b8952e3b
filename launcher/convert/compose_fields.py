"""The keys of a service of a compose file as fields of a role: a function or a reason for each key."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import ceil
from typing import Any

from launcher.convert.compose_text import COMMANDS, Invalid, Texts, parts
from launcher.convert.draft import Draft, memory_text
from launcher.dataclass import dataclass, field
from launcher.jobfile.text.document import Document, Path as Place
from launcher.specs.app import LEAST_PROBE_EVERY_S, LONGEST_PROBE_S, PROBE_EVERY_S
from launcher.text import seconds_in

Spec = Mapping[str, Any]

RESTARTS = 10
"""The restart policies of Compose that never give up."""
ALWAYS = ("always", "unless-stopped", "any")

_OF_ROLE = ("shm_size", "ulimits", "tmpfs", "cap_add", "user", "extra_hosts", "read_only")
"""Options of containers that a role's `cfg` takes."""
_UNITS = " kmgt"
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([kmgt]?)i?b?", re.IGNORECASE)
_PULLS = {"always": "always", "never": "never"}

IGNORED = frozenset({"image", "command", "entrypoint", "depends_on", "profiles", "expose", "links", "attach"})


@dataclass(slots=True)
class ComposeJob:
    """A compose file and the job that it becomes.

    Attributes:
        project: the prefix that Compose gives to names of volumes and images.
        roles: service → role, without services that a profile has to enable.
        ports: role, port of the container, port of the host ("" for any).
        servers: roles that run the server of a known image.
        common: option of the job → the values that services have for it.
    """

    document: Document
    draft: Draft
    project: str
    services: Mapping[str, Spec]
    roles: Mapping[str, str]
    texts: Texts
    ports: list[tuple[str, int, str]] = field(default_factory=list)
    servers: set[str] = field(default_factory=set)
    common: dict[str, list[Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Service:
    """A service and the role that it becomes."""

    job: ComposeJob
    name: str
    role: str

    @property
    def spec(self) -> Spec:
        return self.job.services[self.name]

    @property
    def texts(self) -> Texts:
        return self.job.texts

    def put(self, *keys: str, value: Any) -> None:
        self.job.draft.put(("roles", self.role, *keys), value)

    def note(self, *keys: str | int, text: str) -> None:
        self.job.draft.note(("roles", self.role, *keys), text)

    def lose(self, what: str, why: str, *keys: str | int) -> None:
        self.job.draft.lose(("roles", self.role, *keys), f"{what} of {self.name}", why)

    def mounts(self) -> list[Any]:
        found: list[Any] = self.job.draft.fields["roles"][self.role].setdefault("mounts", [])
        return found

    def scalar(self, value: Any, path: Place) -> str:
        """Return a scalar as written. Raises Invalid for anything else."""
        if isinstance(value, str):
            return value
        if not isinstance(value, bool | int | float):
            raise Invalid("want a text or a number")
        return self.job.document.raw(path)

    def literal(self, value: Any, path: Place) -> str:
        """Return a scalar with its variables replaced by their defaults, which are named as lost."""
        text = self.scalar(value, path)
        for part in parts(text):
            if part.name:
                what = f"${{{part.name}}} in {path[2]}"
                self.lose(what, "the job file has its default alone")
        return self.texts.literal(text)

    def words(self, key: str) -> list[str]:
        """A command line: a list, or a text in words as a shell has them."""
        value, path = self.spec.get(key) or [], ("services", self.name, key)
        if isinstance(value, list):
            return [self.scalar(item, (*path, index)) for index, item in enumerate(value)]
        return shlex.split(self.scalar(value, path))

    def pairs(self, value: Any, path: Place) -> Iterator[tuple[str, str | None]]:
        """Names and values of a mapping, or of a list of `NAME=value`; None is no value."""
        if isinstance(value, Mapping):
            for name, each in value.items():
                yield str(name), None if each is None else self.scalar(each, (*path, name))
            return
        for item in value:
            name, sign, text = item.partition("=")
            yield name, text if sign else None


# What runs


def command(service: Service) -> None:
    """Set the image and the command line of a service; a role has to name the program."""
    image = str(service.spec.get("image") or f"{service.job.project}-{service.name}")
    service.put("image", value=service.texts.value(image))
    front = service.words("entrypoint")
    given = [*front, *service.words("command")]
    words = service.texts.command(service.role, given)
    if given and given[0].startswith("-") and words[0] == "sh":
        why = "the image's ENTRYPOINT gets options alone: let its program read the secret from a variable"
        service.lose("a secret in the command", why, "args")
    if front and not all(each.get("entrypoint") for each in service.job.services.values()):
        why = "`override_entrypoint` in cfg is for all roles: the image's ENTRYPOINT gets this command line"
        service.lose("entrypoint", why, "entrypoint")
    words = words or [*_own_command(image, service)]
    service.put("entrypoint", value=words[0])
    if words[1:]:
        service.put("args", value=words[1:])
    if named := [word for word in words[1:] if word in service.texts.hosts]:
        host = f"$<role.{service.texts.hosts[named[0]]}.host>"
        text = f"`{named[0]}` is the name of a service, too: where it is a host, write `{host}`"
        service.note("args", text=text)


def _own_command(image: str, service: Service) -> Sequence[str]:
    """Return the image's own command, where it is known."""
    repository = re.split(r"[:@]", image.removeprefix("docker.io/").removeprefix("library/"))[0]
    if repository in COMMANDS:
        service.note("entrypoint", text="the image's own command")
        service.job.servers.add(service.role)
        return COMMANDS[repository]
    why = f"write it here: `docker image inspect {image}` shows it as Cmd, or else as Entrypoint"
    service.lose("the command of the image", why, "entrypoint")
    return ["COMMAND-OF-THE-IMAGE"]


def _environment(service: Service, value: Any, path: Place) -> None:
    for name, text in service.pairs(value, path):
        service.texts.variable(service.role, name, text)


def _healthcheck(service: Service, value: Spec, path: Place) -> None:
    test = value.get("test")
    if value.get("disable") or test in (["NONE"], "NONE"):
        return
    if not test:
        service.lose("healthcheck of the image", "name its `test` in the compose file")
        return
    kind, *words = test if isinstance(test, list) else ("CMD-SHELL", service.scalar(test, path))
    if kind == "CMD":
        words = [service.scalar(each, path) for each in words]
        found = service.texts.command(service.role, words, finds_hosts=False)
    else:
        found = ["sh", "-c", service.texts.shell_text(service.role, " ".join(words))]
    service.put("ready", "command", value=found)
    times = {key: _seconds(service, each, (*path, key)) for key, each in value.items() if key in _TIMES}
    every, once = times.get("interval", 30.0), times.get("timeout", 30.0)
    retries = int(service.literal(value["retries"], (*path, "retries"))) if "retries" in value else 3
    if "interval" in value and every != PROBE_EVERY_S:
        service.put("ready", "every", value=_duration(max(every, LEAST_PROBE_EVERY_S)))
    most = times.get("start_period", 0.0) + retries * (every + once)
    service.put("ready", "timeout", value=_duration(min(max(most, 1.0), LONGEST_PROBE_S)))


_TIMES = ("interval", "timeout", "start_period")


def _seconds(service: Service, value: Any, path: Place) -> float:
    text = service.literal(value, path)
    found = float(text) if text.isdecimal() else seconds_in(text)
    if found is None:
        raise Invalid(f"`{text}` is no time")
    return found


def _duration(seconds: float) -> str:
    return f"{seconds:g}s" if seconds >= 1 else f"{round(seconds * 1000)}ms"


def _restart(service: Service, value: Any, path: Place) -> None:
    policy, _, most = service.literal(value, path).partition(":")
    _retries(service, policy, int(most) if most else None)


def _retries(service: Service, policy: str, most: int | None, delay_s: float = 0) -> None:
    if policy in ("no", "none", "false"):
        return
    service.put("max_retries", value=RESTARTS if most is None else most)
    service.put("retry_policy", value="replica")
    if delay_s:
        service.put("retry_delay", value=_duration(ceil(delay_s)))
    if policy in ALWAYS:
        why = "Compose starts it again after every end; a role that has ended with 0 stays ended"
        service.lose(f"restart: {policy}", why, "max_retries")
    elif most is None:
        service.note("max_retries", text="Compose has no limit here")


def _deploy(service: Service, value: Spec, path: Place) -> None:
    for key, part in value.items():
        if key == "replicas":
            _replicas(service, part, (*path, key))
        elif key == "restart_policy":
            most = part.get("max_attempts")
            delay = _seconds(service, part["delay"], (*path, key, "delay")) if "delay" in part else 0
            _retries(service, str(part.get("condition", "any")), most and int(most), delay)
        elif key == "resources":
            _resources(service, part, (*path, key))
        elif key != "mode" or part != "replicated":
            service.lose(f"deploy.{key}", "it is for a swarm of engines")


def _resources(service: Service, value: Spec, path: Place) -> None:
    limits, reserved = value.get("limits") or {}, value.get("reservations") or {}
    for name, amount in limits.items():
        if name in ("cpus", "memory"):
            FIELDS["mem_limit" if name == "memory" else name](service, amount, (*path, "limits", name))
        else:
            service.lose(f"limits.{name}", "containers have no such limit")
    for name in reserved:
        if name == "devices":
            for device in reserved[name]:
                _gpu(service, device, path)
        elif name not in limits:
            service.lose(f"reservations.{name}", "`resource` is a limit")


def _replicas(service: Service, value: Any, path: Place) -> None:
    text = service.scalar(value, path)
    found = parts(text)
    if len(found) == 1 and found[0].name and (found[0].default or "1").isdecimal():
        service.texts.declare(found[0])
        variable = service.job.draft.fields["vars"][found[0].name]
        variable |= {"type": "int", **({"default": int(found[0].default)} if found[0].default else {})}
        service.put("num_replicas", value=f"$<var.{found[0].name}>")
    elif int(text) < 1:
        raise Invalid("a role has one replica or more: leave the service out")
    elif int(text) > 1:
        service.put("num_replicas", value=int(text))
        why = f"`$<role.{service.role}.host>` is the first of them; the name of the service leads to any"
        service.note("num_replicas", text=why)


def _cores(service: Service, value: Any, path: Place) -> None:
    amount = float(service.literal(value, path))
    service.put("resource", "cpu", value=int(amount) if amount == int(amount) else amount)


def _memory(service: Service, value: Any, path: Place) -> None:
    service.put("resource", "memory", value=memory_text(_mebibytes(service.literal(value, path))))


def _mebibytes(text: str) -> int:
    if (found := _SIZE.fullmatch(text.strip())) is None:
        raise Invalid(f"`{text}` is no size")
    return ceil(float(found[1]) * float(1024 ** _UNITS.index(found[2].lower() or " ")) / 2**20)


def _gpu(service: Service, device: Any, path: Place) -> None:
    if device == "all" or (device.get("count", "all") == "all" and "device_ids" not in device):
        service.put("resource", "gpu", value=1)
        service.lose("all GPUs", "write how many one replica takes", "resource", "gpu")
    elif "device_ids" in device:
        service.put("resource", "gpu", value=len(device["device_ids"]))
        service.note("resource", "gpu", text="launcher chooses GPUs that are free")
    else:
        service.put("resource", "gpu", value=int(device["count"]))


# Files and ports


def _volumes(service: Service, value: Any, path: Place) -> None:
    for index, item in enumerate(value):
        mount = item if isinstance(item, Mapping) else _short_volume(service.scalar(item, (*path, index)))
        kind, source = mount.get("type", "volume"), str(mount.get("source") or "")
        target = service.literal(str(mount["target"]), path)
        if kind == "tmpfs":
            _option(service, [target], path, key="tmpfs")
        elif kind not in ("bind", "volume") or not source:
            service.lose(f"volume {target}", "name a volume: `{type: volume, src: NAME, dst: …}`")
        else:
            source = _volume(service, source) if kind == "volume" else source
            made = {"type": kind, "src": service.texts.value(source), "dst": target}
            service.mounts().append(made | ({"read_only": True} if mount.get("read_only") else {}))


def _short_volume(text: str) -> dict[str, Any]:
    """`source:target:options`; a colon within `${…}` is part of a name."""
    pieces = re.findall(r"(?:\$\{[^}]*\}|[^:])+", text)
    if not 1 <= len(pieces) <= 3:
        raise Invalid(f"`{text}` is no volume")
    if len(pieces) == 1:
        return {"target": pieces[0]}
    source, target, options = (*pieces, "")[:3]
    kind = "bind" if source.startswith((".", "/", "~", "$")) else "volume"
    return {"type": kind, "source": source, "target": target, "read_only": "ro" in options.split(",")}


def _volume(service: Service, name: str) -> str:
    spec = ((service.job.document.value or {}).get("volumes") or {}).get(name) or {}
    if spec.get("driver", "local") != "local" or spec.get("driver_opts"):
        service.lose(f"driver of volume {name}", "make it first, by `docker volume create`")
    return str(spec.get("name") or (name if spec.get("external") else f"{service.job.project}_{name}"))


def _devices(service: Service, value: Any, path: Place) -> None:
    for item in value:
        words = (
            [item["source"], item.get("target", ""), item.get("permissions", "")]
            if isinstance(item, Mapping)
            else service.literal(item, path).split(":")
        )
        source, target, rights = (*words, "", "")[:3]
        made = {"type": "device", "src": source} | ({"dst": target} if target not in ("", source) else {})
        service.mounts().append(made | ({"permissions": rights} if rights not in ("", "rwm") else {}))


def _ports(service: Service, value: Any, path: Place) -> None:
    for index, item in enumerate(value):
        if isinstance(item, Mapping):
            host, port, kind = item.get("published", ""), item["target"], item.get("protocol", "tcp")
        else:
            head, _, kind = service.literal(item, (*path, index)).partition("/")
            *before, port = head.rpartition("]")[2].split(":")
            host = before[-1] if before else ""
        if kind not in ("", "tcp"):
            service.lose(f"port {port}/{kind}", "port_map is for TCP")
            continue
        ports, hosts = _span(str(port)), _span(str(host)) if str(host) else []
        of_host = [*map(str, hosts)] if len(hosts) == len(ports) else [""] * len(ports)
        service.job.ports += [(service.role, *pair) for pair in zip(ports, of_host, strict=True)]


def _span(text: str) -> list[int]:
    first, _, last = text.partition("-")
    found = [*range(int(first), min(int(last or first), 65535) + 1)]
    if not 1 <= len(found) <= 100 or found[0] < 1:
        raise Invalid(f"`{text}` is no port")
    return found


# Options of containers


def _option(service: Service, value: Any, path: Place, *, key: str) -> None:
    known = service.job.draft.fields["roles"][service.role].get("cfg", {}).get(key)
    shaped = _shaped(service, key, value, path)
    service.put("cfg", key, value=[*known, *shaped] if isinstance(known, list) else shaped)


def _shaped(service: Service, key: str, value: Any, path: Place) -> Any:
    if key == "read_only":
        return bool(value)
    if key in ("tmpfs", "cap_add"):
        return [service.literal(str(each), path) for each in (value if isinstance(value, list) else [value])]
    if key == "extra_hosts":
        if isinstance(value, list):
            value = [re.sub(r"[:=]", "=", each, count=1) for each in value]
        return {name: service.literal(text or "", path) for name, text in service.pairs(value, path)}
    if key == "ulimits":
        pairs = {name: each if isinstance(each, Mapping) else {"soft": each} for name, each in value.items()}
        return {
            name: ":".join(str(int(each[k])) for k in ("soft", "hard") if k in each)
            for name, each in pairs.items()
        }
    if key == "shm_size":
        return f"{_mebibytes(service.literal(value, path))}m"
    return service.literal(value, path)


def _of_all(service: Service, value: Any, path: Place, *, key: str) -> None:
    """Set an option of the job if all services have the same value for it."""
    text = value if isinstance(value, bool) else service.literal(value, path)
    service.job.common.setdefault(key, []).append(text)


def _grace(service: Service, value: Any, path: Place) -> None:
    seconds = _seconds(service, value, path)
    service.job.common.setdefault("grace_s", []).append(seconds)


def _network(service: Service, value: Any, path: Place) -> None:
    if str(value).startswith(("service:", "container:")):
        service.lose(f"network_mode: {value}", "all roles of a job are on one network")
    elif value != "bridge":
        _of_all(service, value, path, key="network")


def _pull(service: Service, value: Any, path: Place) -> None:
    if value in _PULLS:
        _of_all(service, _PULLS[value], path, key="image_pull")


FIELDS: Mapping[str, Callable[[Service, Any, Place], None]] = {
    "environment": _environment,
    "healthcheck": _healthcheck,
    "restart": _restart,
    "deploy": _deploy,
    "scale": _replicas,
    "cpus": _cores,
    "mem_limit": _memory,
    "gpus": _gpu,
    "volumes": _volumes,
    "devices": _devices,
    "ports": _ports,
    "working_dir": partial(_of_all, key="workdir"),
    "privileged": partial(_of_all, key="privileged"),
    "init": partial(_of_all, key="init"),
    "stop_grace_period": _grace,
    "network_mode": _network,
    "pull_policy": _pull,
    **{key: partial(_option, key=key) for key in _OF_ROLE},
}
"""Key of a service → the function that gives it a place. It raises Invalid, or an error of Python, for
a value of the wrong form."""
