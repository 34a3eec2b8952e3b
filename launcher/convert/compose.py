"""A compose file as a job of local_docker: each service is a role."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from typing import Any

from launcher.convert.compose_text import Texts, parts
from launcher.convert.draft import Draft, label
from launcher.errors import LauncherError
from launcher.jobfile.diagnostics.diagnostic import Diagnostic, in_order, job_file_error
from launcher.jobfile.model.role import RoleSpec
from launcher.jobfile.text.document import Document
from launcher.jobfile.text.document import Path as Place
from launcher.specs.probe import EVERY_S, LEAST_EVERY_S, LONGEST_S
from launcher.text import seconds_in

Spec = Mapping[str, Any]

_OF_ROLE = ("shm_size", "ulimits", "tmpfs", "cap_add", "user", "extra_hosts", "read_only")
"""Options of containers that a role may have in `cfg`."""
_CONDITIONS = {
    "service_started": "started",
    "service_healthy": "ready",
    "service_completed_successfully": "succeeded",
}
_COMMANDS: Mapping[str, Sequence[str]] = {
    "redis": ["redis-server"],
    "valkey": ["valkey-server"],
    "postgres": ["postgres"],
    "mysql": ["mysqld"],
    "mariadb": ["mariadbd"],
    "mongo": ["mongod"],
    "rabbitmq": ["rabbitmq-server"],
    "memcached": ["memcached"],
    "nginx": ["nginx", "-g", "daemon off;"],
    "httpd": ["httpd-foreground"],
    "influxdb": ["influxd"],
    "zookeeper": ["zkServer.sh", "start-foreground"],
}
"""Official image → the command that it has of its own."""
_RESTARTS = 10
_ALWAYS = ("always", "unless-stopped", "any")
_MIB = 1 << 20
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([kmgt]?)i?b?", re.IGNORECASE)

_REASONS: Mapping[str, str] = {
    "annotations": "`metadata` of the role is for people and tools",
    "blkio_config": "containers share the disk alike",
    "build": "`docker compose build` makes the image; or put the files into `workspace`, with its Dockerfile",
    "cap_drop": "containers keep the capabilities of the engine",
    "cgroup": "containers have the cgroup of the engine",
    "configs": "mount the file: `type=bind,src=./FILE,dst=/FILE,readonly`",
    "container_name": "launcher names containers after the app; roles find each other by `$<role.NAME.host>`",
    "cpu_shares": "`resource: {cpu: …}` is a limit",
    "cpuset": "`resource: {cpu: …}` limits how many cores it takes",
    "develop": "a change of `workspace` runs the job again",
    "dns": "containers have the name servers of the engine",
    "domainname": "roles find each other by `$<role.NAME.host>`",
    "env_file": "it is not read: name each variable in `env`, secrets as `{secret: env:NAME}`",
    "extends": "write the fields of that service here, or give `docker compose config` to convert",
    "external_links": "containers of other apps are not on this network: `network` in cfg names another one",
    "group_add": "containers have the groups of their user",
    "healthcheck": "a probe ends with 0 when the role is ready",
    "hostname": "roles find each other by `$<role.NAME.host>`",
    "include": "give `docker compose config` to convert, which puts all files into one",
    "ipc": "containers have an IPC namespace of their own",
    "isolation": "launcher runs Linux containers",
    "labels": "`metadata` of the role is for people and tools",
    "logging": "launcher keeps the output for `launcher logs`: see log_max_size in cfg",
    "mac_address": "the engine chooses it",
    "mem_reservation": "`resource: {memory: …}` is a limit",
    "mem_swappiness": "it belongs to the engine's host",
    "memswap_limit": "it belongs to the engine's host",
    "networks": "all roles of a job are on one network; `network` in cfg names another one",
    "oom_kill_disable": "it belongs to the engine's host",
    "oom_score_adj": "it belongs to the engine's host",
    "pid": "containers have a PID namespace of their own",
    "pids_limit": "containers have no such limit",
    "platform": "name an image of that platform by its digest",
    "runtime": "`resource: {gpu: 1}` gives it GPUs",
    "secrets": "`{secret: file:PATH}` gives it to a variable in `env`",
    "security_opt": "containers have the security options of the engine",
    "stdin_open": "replicas read nothing from standard input",
    "stop_signal": "replicas get TERM, and KILL after grace_s of cfg",
    "storage_opt": "it belongs to the engine",
    "sysctls": "containers have those of the engine",
    "tty": "output is kept without a terminal",
    "userns_mode": "it belongs to the engine",
    "uts": "containers have a host name of their own",
    "volumes_from": "name the same volumes in `mounts`",
}
"""Key of a service, or of the file → what to do in its place."""
_IGNORED = frozenset({"image", "command", "entrypoint", "profiles", "expose", "links", "attach"})


@dataclass(slots=True)
class _File:
    """A compose file and the job that it becomes.

    Attributes:
        roles: service → role, without those that a profile has to enable.
        ports: role, port of the container, port of the host ("" for any).
        wrong: what Compose refuses, too.
    """

    document: Document
    draft: Draft
    project: str
    services: Mapping[str, Spec]
    roles: dict[str, str]
    texts: Texts
    ports: list[tuple[str, int, str]] = field(default_factory=list)
    common: dict[str, list[Any]] = field(default_factory=dict)
    wrong: list[Diagnostic] = field(default_factory=list)

    def scalar(self, value: Any, path: Place) -> str:
        """A scalar as it was written; raises ValueError for anything else."""
        if isinstance(value, str):
            return value
        if not isinstance(value, bool | int | float):
            raise ValueError("want a text or a number")
        return self.document.raw(path)

    def words(self, value: Any, path: Place) -> list[str]:
        """A command line: a list, or a text in words as a shell has them."""
        if isinstance(value, list):
            return [self.scalar(item, (*path, index)) for index, item in enumerate(value)]
        return shlex.split(self.scalar(value, path))

    def pairs(self, value: Any, path: Place, sign: str = "=") -> Iterator[tuple[str, str | None]]:
        """Names and values of a mapping, or of a list of `NAME=value`; None is no value."""
        if isinstance(value, Mapping):
            for name, each in value.items():
                yield str(name), None if each is None else self.scalar(each, (*path, name))
        for item in value if isinstance(value, list) else ():
            name, found, text = item.partition(sign)
            yield name, text if found else None


def is_compose(value: object) -> bool:
    """Whether a mapping has the shape of a compose file."""
    return isinstance(value, Mapping) and isinstance(value.get("services"), Mapping) and "roles" not in value


def convert(document: Document, name: str = "") -> Draft:
    """The draft of the job that a compose file is.

    Raises LauncherError where there is no service, JobFileError for fields that Compose refuses.
    """
    file = document.source.file
    value = document.value or {}
    given = value.get("services")
    if not isinstance(given, Mapping) or not given:
        raise LauncherError(f"{file} has no services", hint="such as `services: {NAME: {image: …}}`")
    services = {each: spec or {} for each, spec in given.items()}
    if odd := [each for each, spec in services.items() if not isinstance(spec, Mapping)]:
        raise job_file_error([_problem(document, ("services", odd[0]), "a service is a mapping")])
    folder = os.path.basename(os.path.dirname(os.path.abspath(file)))
    project = str(value.get("name") or re.sub(r"[^a-z0-9_-]", "", folder.lower()).strip("-_") or "default")
    draft = Draft(file, "compose file", {"name": name or label(project), "scheduler": "local_docker"})
    draft.put(("roles",), {})
    roles = _roles(services, draft)
    whole = _File(document, draft, project, services, roles, Texts(draft, _hosts(services, roles)))
    for each, role in roles.items():
        draft.put(("roles", role), {})
        _service(whole, each, role)
    _order(whole)
    _ports(whole)
    _shared(whole)
    for key in value.keys() & _REASONS.keys():
        draft.lose((), key, _REASONS[key])
    if whole.wrong:
        raise job_file_error(in_order(whole.wrong))
    return draft


def _problem(document: Document, path: Place, message: str) -> Diagnostic:
    return document.source.diagnostic(*document.key_range(path), "invalid-value", message)


def _roles(services: Mapping[str, Spec], draft: Draft) -> dict[str, str]:
    """Service → role. A service with profiles is left out, unless another one waits for it."""
    awaited = {each for spec in services.values() for each in spec.get("depends_on") or ()}
    roles: dict[str, str] = {}
    for name, spec in services.items():
        if spec.get("profiles") and name not in awaited and len(services) > 1:
            why = "it starts with a profile only: convert the file without `profiles` to have it"
            draft.lose(("roles",), f"service {name}", why)
            continue
        role, number = label(name), 2
        while role in roles.values():
            role, number = f"{label(name)[:60]}-{number}", number + 1
        roles[name] = role
    return roles


def _hosts(services: Mapping[str, Spec], roles: Mapping[str, str]) -> dict[str, str]:
    """Every name under which a service is reached → its role."""
    hosts = {}
    for name, role in roles.items():
        for key in ("container_name", "hostname"):
            if isinstance(services[name].get(key), str):
                hosts[services[name][key]] = role
        for link in services[name].get("links") or ():
            other, _, alias = str(link).partition(":")
            if other in roles:
                hosts[alias or other] = roles[other]
    return hosts | dict(roles)


def _service(whole: _File, name: str, role: str) -> None:
    spec = whole.services[name]
    _command(whole, name, role)
    for key, value in spec.items():
        path: Place = ("services", name, key)
        if (
            value is None
            or key in _IGNORED
            or key.startswith("x-")
            or key in ("image", "command", "entrypoint")
        ):
            continue
        try:
            if key in _FIELDS:
                _FIELDS[key](whole, role, value, path)
            elif key in _OF_ROLE:
                _option(whole, role, key, value, path)
            else:
                why = _REASONS.get(key, "launcher has no such field")
                whole.draft.lose(("roles", role), f"{key} of {name}", why)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            why = f": {error}" if type(error) is ValueError else ""
            message = f"`{key}` of service `{name}` has no form that Compose takes{why}"
            whole.wrong.append(_problem(whole.document, path, message))


# What runs


def _command(whole: _File, name: str, role: str) -> None:
    spec, draft = whole.services[name], whole.draft
    at = ("roles", role)
    image = spec.get("image") or f"{whole.project}-{name}"
    try:
        draft.put((*at, "image"), whole.texts.value(str(image), finds_hosts=False))
        front = whole.words(spec.get("entrypoint") or [], ("services", name, "entrypoint"))
        rest = whole.words(spec.get("command") or [], ("services", name, "command"))
        words = whole.texts.command(role, [*front, *rest])
    except ValueError as error:
        whole.wrong.append(_problem(whole.document, ("services", name), f"service `{name}`: {error}"))
        return
    if front and not all(each.get("entrypoint") for each in whole.services.values()):
        why = "`override_entrypoint` in cfg is for all roles: the image's ENTRYPOINT gets this command line"
        draft.lose((*at, "entrypoint"), f"entrypoint of {name}", why)
    if not words:
        words = [*_own_command(str(image), name, at, draft)]
    draft.put((*at, "entrypoint"), words[0])
    if words[1:]:
        draft.put((*at, "args"), words[1:])


def _own_command(image: str, name: str, at: tuple[str, str], draft: Draft) -> Sequence[str]:
    """The command of the image, where it is known."""
    repository = re.split(r"[:@]", image.removeprefix("docker.io/").removeprefix("library/"))[0]
    if repository in _COMMANDS:
        draft.note((*at, "entrypoint"), "the image's own command")
        return _COMMANDS[repository]
    why = f"write it here: `docker image inspect {image}` shows it as Cmd, or else as Entrypoint"
    draft.lose((*at, "entrypoint"), f"the command of the image of {name}", why)
    return ["COMMAND-OF-THE-IMAGE"]


def _environment(whole: _File, role: str, value: Any, path: Place) -> None:
    for name, text in whole.pairs(value, path):
        whole.texts.variable(role, name, text)


def _healthcheck(whole: _File, role: str, value: Spec, path: Place) -> None:
    test = value.get("test")
    if value.get("disable") or test in (["NONE"], "NONE"):
        return
    at = ("roles", role, "ready")
    if not test:
        whole.draft.lose(("roles", role), "healthcheck of the image", "name its `test` in the compose file")
        return
    kind, *words = test if isinstance(test, list) else ("CMD-SHELL", whole.scalar(test, path))
    if kind == "CMD":
        words = whole.texts.command(role, [whole.scalar(each, path) for each in words])
        command = [re.sub(r"\$<role\.[^>]*\.host>", "localhost", each) for each in words]
    else:
        command = ["sh", "-c", whole.texts.shell_text(role, " ".join(words))]
    whole.draft.put((*at, "command"), command)
    times = {key: _seconds(whole, value[key], (*path, key)) for key in _TIMES if key in value}
    every, once = times.get("interval", 30.0), times.get("timeout", 30.0)
    retries = int(whole.texts.literal(whole.scalar(value.get("retries", 3), (*path, "retries"))))
    most = times.get("start_period", 0.0) + retries * (every + once)
    if "interval" in value and every != EVERY_S:
        whole.draft.put((*at, "every"), _duration(max(every, LEAST_EVERY_S)))
    whole.draft.put((*at, "timeout"), _duration(min(max(most, 1.0), LONGEST_S)))


_TIMES = ("interval", "timeout", "start_period")


def _seconds(whole: _File, value: Any, path: Place) -> float:
    text = whole.texts.literal(whole.scalar(value, path))
    found = seconds_in(text) if not text.isdecimal() else float(text)
    if found is None:
        raise ValueError(f"`{text}` is no time")
    return found


def _duration(seconds: float) -> str:
    return f"{seconds:g}s" if seconds >= 1 else f"{round(seconds * 1000)}ms"


def _restart(whole: _File, role: str, value: Any, path: Place) -> None:
    policy, _, most = whole.scalar(value, path).partition(":")
    _retries(whole, role, policy, int(most) if most else None, "")


def _retries(whole: _File, role: str, policy: str, most: int | None, delay: str) -> None:
    if policy in ("no", "none", "false", "False"):
        return
    at = ("roles", role)
    whole.draft.put((*at, "max_retries"), _RESTARTS if most is None else most)
    whole.draft.put((*at, "retry_policy"), "replica")
    if delay:
        whole.draft.put((*at, "retry_delay"), delay)
    if policy in _ALWAYS:
        text = "Compose starts it again after every end; a role that has ended with 0 stays ended"
        whole.draft.lose((*at, "max_retries"), f"restart: {policy}", text)
    elif most is None:
        whole.draft.note((*at, "max_retries"), "Compose has no limit here")


def _deploy(whole: _File, role: str, value: Spec, path: Place) -> None:
    at = ("roles", role)
    for key, part in value.items():
        if key == "replicas":
            _replicas(whole, role, part, (*path, key))
        elif key == "restart_policy":
            most = part.get("max_attempts")
            delay = _seconds(whole, part["delay"], (*path, key, "delay")) if "delay" in part else 0.0
            condition = str(part.get("condition", "any"))
            _retries(whole, role, condition, most and int(most), _duration(ceil(delay)) if delay else "")
        elif key == "resources":
            limits, reserved = part.get("limits") or {}, part.get("reservations") or {}
            for name, amount in limits.items():
                if name in _AMOUNTS:
                    _AMOUNTS[name](whole, role, amount, (*path, key, "limits", name))
                else:
                    whole.draft.lose(at, f"limits.{name}", "containers have no such limit")
            for name in reserved.keys() - {"devices"} - limits.keys():
                whole.draft.lose(at, f"reservations.{name}", "`resource` is a limit")
            for device in reserved.get("devices") or ():
                _gpu(whole, role, device, path)
        elif key != "mode" or part != "replicated":
            whole.draft.lose(at, f"deploy.{key}", "it is for a swarm of engines")


def _replicas(whole: _File, role: str, value: Any, path: Place) -> None:
    at = ("roles", role, "num_replicas")
    text = whole.scalar(value, path)
    found = parts(text)
    if len(found) == 1 and found[0].name and (found[0].default or "1").isdecimal():
        whole.texts.declare(found[0])
        variable = whole.draft.fields["vars"][found[0].name]
        variable["type"] = "int"
        if "default" in variable:
            variable["default"] = int(variable["default"])
        whole.draft.put(at, f"$<var.{found[0].name}>")
    elif int(text) != 1:
        if int(text) < 1:
            raise ValueError("a role has one replica at least: leave the service out")
        whole.draft.put(at, int(text))
        host = f"`$<role.{role}.host>` is the first of its replicas"
        whole.draft.note(at, f"{host}; Compose's name of the service leads to any of them")


def _cores(whole: _File, role: str, value: Any, path: Place) -> None:
    amount = float(whole.texts.literal(whole.scalar(value, path)))
    whole.draft.put(("roles", role, "resource", "cpu"), int(amount) if amount == int(amount) else amount)


def _memory(whole: _File, role: str, value: Any, path: Place) -> None:
    amount = _bytes(whole.texts.literal(whole.scalar(value, path)))
    mib = ceil(amount / _MIB)
    text = f"{mib >> 10}GiB" if mib % 1024 == 0 else f"{mib}MiB"
    whole.draft.put(("roles", role, "resource", "memory"), text)


def _bytes(text: str) -> float:
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"`{text}` is no size")
    return float(found[1]) * float(1024 ** " kmgt".index(found[2].lower() or " "))


def _gpu(whole: _File, role: str, device: Any, path: Place) -> None:
    at = ("roles", role, "resource", "gpu")
    if device == "all" or (device.get("count", "all") == "all" and "device_ids" not in device):
        whole.draft.put(at, 1)
        whole.draft.lose(at, "all GPUs", "write how many one replica takes")
    elif "device_ids" in device:
        whole.draft.put(at, len(device["device_ids"]))
        whole.draft.note(at, "launcher chooses GPUs that are free")
    else:
        whole.draft.put(at, int(device["count"]))


_AMOUNTS: Mapping[str, Callable[[_File, str, Any, Place], None]] = {"cpus": _cores, "memory": _memory}


# Files and ports


def _volumes(whole: _File, role: str, value: Any, path: Place) -> None:
    mounts = whole.draft.fields["roles"][role].setdefault("mounts", [])
    for index, item in enumerate(value):
        mount = item if isinstance(item, Mapping) else _short_volume(whole.scalar(item, (*path, index)))
        kind, source = mount.get("type", "volume"), str(mount.get("source") or "")
        target = whole.texts.literal(str(mount["target"]))
        at = ("roles", role, "mounts", len(mounts))
        if kind == "tmpfs":
            _option(whole, role, "tmpfs", [target], path)
        elif kind not in ("bind", "volume") or not source:
            why = (
                "name a volume: `type=volume,src=NAME,dst=…`"
                if kind == "volume"
                else "mount a file or volume"
            )
            whole.draft.lose(("roles", role), f"volume {target}", why)
        else:
            source = whole.texts.value(source, finds_hosts=False)
            if kind == "volume":
                source = _volume(whole, source, at)
            made: dict[str, Any] = {"type": kind, "src": source, "dst": target}
            mounts.append({**made, **({"read_only": True} if mount.get("read_only") else {})})
    if not mounts:
        del whole.draft.fields["roles"][role]["mounts"]


def _short_volume(text: str) -> dict[str, Any]:
    """`source:target:options`; a colon within `${…}` is part of a name."""
    pieces = re.findall(r"(?:\$\{[^}]*\}|[^:])+", text)
    if len(pieces) == 1:
        return {"type": "volume", "target": pieces[0]}
    if len(pieces) > 3:
        raise ValueError(f"`{text}` has too many parts")
    source, target, options = (*pieces, "")[:3]
    kind = "bind" if source.startswith((".", "/", "~", "$")) else "volume"
    return {"type": kind, "source": source, "target": target, "read_only": "ro" in options.split(",")}


def _volume(whole: _File, name: str, at: tuple[str | int, ...]) -> str:
    """The name of a volume on the engine."""
    top = (whole.document.value or {}).get("volumes") or {}
    spec = (top.get(name) if isinstance(top, Mapping) else None) or {}
    real = str(spec.get("name") or (name if spec.get("external") else f"{whole.project}_{name}"))
    if spec.get("driver", "local") != "local" or spec.get("driver_opts"):
        whole.draft.lose(at, f"driver of volume {name}", "make it first, by `docker volume create`")
    return whole.texts.value(real, finds_hosts=False)


def _devices(whole: _File, role: str, value: Any, path: Place) -> None:
    mounts = whole.draft.fields["roles"][role].setdefault("mounts", [])
    for item in value:
        if isinstance(item, Mapping):
            item = f"{item['source']}:{item.get('target', item['source'])}:{item.get('permissions', 'rwm')}"
        source, _, rest = whole.texts.literal(item).partition(":")
        target, _, rights = rest.partition(":")
        made = {"type": "device", "src": source}
        made |= {"dst": target} if target and target != source else {}
        mounts.append(made | ({"permissions": rights} if rights not in ("", "rwm") else {}))


def _published(whole: _File, role: str, value: Any, path: Place) -> None:
    for index, item in enumerate(value):
        if isinstance(item, Mapping):
            host, port, kind = item.get("published", ""), item["target"], item.get("protocol", "tcp")
        else:
            text = whole.texts.literal(whole.scalar(item, (*path, index)))
            head, _, kind = text.partition("/")
            *rest, port = head.rsplit(":", 2) if "]" not in head else head.rpartition("]")[2].split(":")
            host = rest[-1] if rest else ""
        if kind not in ("", "tcp"):
            whole.draft.lose(("roles", role), f"port {port}/{kind}", "port_map is for TCP")
            continue
        ports, hosts = _span(str(port)), _span(str(host)) if str(host) else []
        for place, each in enumerate(ports):
            same = str(hosts[place]) if len(hosts) == len(ports) else ""
            whole.ports.append((role, each, same))


def _span(text: str) -> list[int]:
    first, _, last = text.partition("-")
    found = [*range(int(first), int(last or first) + 1)]
    if not 1 <= len(found) <= 100 or found[0] < 1 or found[-1] > 65535:
        raise ValueError(f"`{text}` is no port")
    return found


# Options of containers


def _option(whole: _File, role: str, key: str, value: Any, path: Place) -> None:
    """An option that a role has in `cfg`, where roles have that."""
    if "cfg" in RoleSpec.model_fields:
        at = ("roles", role, "cfg", key)
        known = whole.draft.fields["roles"][role].get("cfg", {}).get(key, [])
        whole.draft.put(
            at, [*known, *value] if key == "tmpfs" and known else _shaped(whole, key, value, path)
        )
    elif key == "user":
        whole.common.setdefault(key, []).append(whole.texts.literal(whole.scalar(value, path)))
    else:
        why = "containers have what the engine gives: no option of a role sets it"
        whole.draft.lose(("roles", role), f"{key} of {path[1]}", why)


def _shaped(whole: _File, key: str, value: Any, path: Place) -> Any:
    """The value of an option of a role."""
    if key == "read_only":
        return bool(value)
    if key in ("tmpfs", "cap_add"):
        return [whole.texts.literal(str(each)) for each in (value if isinstance(value, list) else [value])]
    if key == "extra_hosts":
        hosts = whole.pairs(value, path, ":" if ":" in str(value) and "=" not in str(value) else "=")
        return {name: whole.texts.literal(text or "") for name, text in hosts}
    if key == "ulimits":
        pairs = ((n, v if isinstance(v, Mapping) else {"soft": v, "hard": v}) for n, v in value.items())
        return {name: {"soft": int(each["soft"]), "hard": int(each["hard"])} for name, each in pairs}
    return whole.texts.literal(whole.scalar(value, path))


def _of_all(whole: _File, role: str, value: Any, path: Place, *, key: str) -> None:
    """An option of the job: each service has the same value, or it has no place."""
    text = value if isinstance(value, bool) else whole.texts.literal(whole.scalar(value, path))
    whole.common.setdefault(key, []).append(text)


def _grace(whole: _File, role: str, value: Any, path: Place) -> None:
    whole.common.setdefault("grace_s", []).append(_seconds(whole, value, path))


def _network(whole: _File, role: str, value: Any, path: Place) -> None:
    if value == "bridge":
        return
    if str(value).startswith(("service:", "container:")):
        raise ValueError("a container of another service has no place: roles have one network")
    whole.common.setdefault("network", []).append(value)


def _pull(whole: _File, role: str, value: Any, path: Place) -> None:
    words = {"always": "always", "never": "never", "missing": "missing", "if_not_present": "missing"}
    if value in words and words[value] != "missing":
        whole.common.setdefault("image_pull", []).append(words[value])


def _none(whole: _File, role: str, value: Any, path: Place) -> None:
    """`depends_on` is looked at when all roles are there."""


_FIELDS: Mapping[str, Callable[[_File, str, Any, Place], None]] = {
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
    "ports": _published,
    "working_dir": partial(_of_all, key="workdir"),
    "privileged": partial(_of_all, key="privileged"),
    "init": partial(_of_all, key="init"),
    "stop_grace_period": _grace,
    "network_mode": _network,
    "pull_policy": _pull,
    "depends_on": _none,
}


# The job as a whole


def _order(whole: _File) -> None:
    """Who waits for whom, and which roles are services."""
    draft = whole.draft
    needed: set[str] = set()
    ended: set[str] = set()
    for name, role in whole.roles.items():
        given = whole.services[name].get("depends_on") or {}
        waits: Spec = {each: {} for each in given} if isinstance(given, list) else given
        for other, rule in waits.items():
            condition = _CONDITIONS.get((rule or {}).get("condition", "service_started"), "started")
            if other not in whole.roles:
                message = f"service `{name}` depends on `{other}`, which there is not"
                whole.wrong.append(_problem(whole.document, ("services", name, "depends_on"), message))
                continue
            target, at = whole.roles[other], ("roles", role, "depends_on")
            if condition == "ready" and "ready" not in draft.fields["roles"][target]:
                why = f"role `{target}` has no probe: give it `ready`, and write `ready` here"
                draft.lose((*at, target), f"service_healthy of {other}", why)
                condition = "started"
            draft.put((*at, target), condition)
            (ended if condition == "succeeded" else needed).add(target)
            if (rule or {}).get("restart"):
                draft.lose(
                    (*at, target), "depends_on.restart", "`retry_policy: application` restarts all roles"
                )
    _services(whole, needed - ended, ended)


def _services(whole: _File, needed: set[str], ended: set[str]) -> None:
    draft = whole.draft
    endless = {role for name, role in whole.roles.items() if whole.services[name].get("restart") in _ALWAYS}
    last = [role for role in whole.roles.values() if role not in needed and role not in ended]
    serving = needed | (endless - ended if set(last) - endless else set())
    for role in whole.roles.values():
        if role in serving:
            draft.put(("roles", role, "service"), True)
    open_ended = [role for role in last if role not in serving]
    probably = [
        role for role in open_ended if role in endless or any(role == each[0] for each in whole.ports)
    ]
    if probably:
        named = ", ".join(f"`{role}`" for role in probably)
        draft.note(
            (), f"A job ends when its roles have ended with 0. It seems that {named} runs without an end:"
        )
        draft.note((), "then the job runs until `launcher cancel`, or until a `timeout` that you set.")


def _ports(whole: _File) -> None:
    counts = whole.draft.fields["roles"]
    is_alone = all(counts[role].get("num_replicas", 1) == 1 for role, _, _ in whole.ports)
    ports = [port for _, port, _ in whole.ports]
    hosts = [host for _, _, host in whole.ports]
    is_same = all(host in ("", str(port)) for port, host in zip(ports, hosts, strict=True))
    is_fixed = any(hosts) and is_same and is_alone and len({*ports}) == len(ports)
    for role, port, host in whole.ports:
        whole.draft.put(("roles", role, "port_map", f"p{port}"), port)
        if host and not is_fixed:
            why = "the engine picks the port of the host, and `launcher describe` shows it"
            whole.draft.lose(("roles", role, "port_map", f"p{port}"), f"port {host} of the host", why)
    if is_fixed:
        whole.draft.put(("cfg", "ports"), "fixed")
    if ports:
        whole.draft.note(("cfg", "ports") if is_fixed else (), "Ports are published on 127.0.0.1 alone.")


def _shared(whole: _File) -> None:
    """The options of the job. Values that roles have in common count; others have no place."""
    for key, values in whole.common.items():
        if key == "grace_s":
            whole.draft.put(("cfg", key), max(values))
        elif len(values) == len(whole.roles) and len(set(values)) == 1:
            whole.draft.put(("cfg", key), values[0])
        elif key != "init":
            why = f"`{key}` in cfg is for all roles, and they differ"
            whole.draft.lose((), f"{key} {', '.join(map(str, dict.fromkeys(values)))}", why)
    if all(whole.services[name].get("entrypoint") for name in whole.roles):
        whole.draft.put(("cfg", "override_entrypoint"), True)
