"""`DockerJob`, the request of a Docker app: its text for users, and the bodies that the engine gets. Pure.

Containers have the arguments of the Docker SDK's `containers.create`. Values with the same form in the
engine's API need no function; each function raises TypeError, ValueError, KeyError or AttributeError for a
value of the wrong form.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from launcher.dataclass import dataclass, field
from launcher.errors import SchedulerError
from launcher.schedulers.docker.labels import DEFAULT_GRACE_S, PREFIX, order_label
from launcher.schedulers.replica_request import shown_value
from launcher.specs.secret import Secret, hide
from launcher.specs.text import to_yaml
from launcher.text import did_you_mean


@dataclass
class DockerContainer:
    """The container of one replica.

    Attributes:
        kwargs: the other arguments of the Docker SDK's `containers.create`: name, hostname, environment,
            labels, network, mounts, … as plain data. They may be edited after a dry run: any parameter of
            `containers.create`, also in the SDK's types.
            Secrets in `environment` are references (`specs.secret.Secret`), never values.
    """

    image: str
    command: list[str]
    kwargs: dict[str, Any]
    role: str = ""
    replica: int = 0

    @property
    def name(self) -> str:
        return str(self.kwargs["name"])

    def body(self) -> dict[str, Any]:
        """See `engine_config`."""
        return engine_config(self.image, self.command, self.kwargs)


@dataclass(repr=False)
class DockerJob:
    """An app as containers, in the order of roles and replicas. `str(job)` is the text for users.

    Attributes:
        app_id: `$<app_id>` until the job is bound to a real one.
        scratch: the name of the volume that all containers share at /launcher/scratch.
        network: the network of all containers.
        role_retries: role → (max_retries, retry policy).
        role_rules: role → the other fields that the watcher follows, where they are set.
        timeout_s: time limit of the whole app, restarts included; None for no limit.
        grace_s: time from TERM to KILL when the app is stopped.
        copy_env: patterns of variables to take from the submitting process when containers are created.
        image_pull: missing, always or never.
        notes: requests of the app that this scheduler fulfils differently or not at all.
        needs: needed job → the volume, or the folder of this machine, that is its output folder when it has
            one; "" for a job that is out of reach.
    """

    app_id: str
    containers: list[DockerContainer]

    handle: str = ""
    scratch: str = ""
    network: str = ""
    role_retries: dict[str, tuple[int, str]] = field(default_factory=dict)
    timeout_s: int | None = None
    grace_s: float = DEFAULT_GRACE_S
    copy_env: list[str] = field(default_factory=list)
    image_pull: str = "missing"
    notes: list[str] = field(default_factory=list)
    role_rules: dict[str, dict[str, Any]] = field(default_factory=dict)
    needs: dict[str, str] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """Role → number of its containers, even 0 for a role that others wait for."""
        awaited = (role for rules in self.role_rules.values() for role in rules.get("depends_on", {}))
        roles = dict.fromkeys((*self.role_rules, *awaited), 0)
        return roles | Counter(each.role for each in self.containers)

    def __str__(self) -> str:
        """The job as YAML, the same text for equal jobs. Values under sensitive-looking names are hidden."""
        retries = {
            role: f"{most} ({policy.lower()})" for role, (most, policy) in self.role_retries.items() if most
        }
        head: dict[str, Any] = {
            "app_id": self.app_id,
            "handle": self.handle,
            "image_pull": self.image_pull,
            "network": self.network,
            "scratch": self.scratch,
            "timeout_s": self.timeout_s,
            "grace_s": self.grace_s,
            "copy_env": self.copy_env or None,
            "retries": retries or None,
            "rules": self.role_rules or None,
        }
        lines = [to_yaml({name: value}) for name, value in head.items() if value is not None]
        lines.append(to_yaml({"containers": [_shown(container) for container in self.containers]}))
        lines += [f"# note: {note}\n" for note in self.notes]
        return "".join(lines).rstrip("\n")

    __repr__ = __str__


def job_labels(job: DockerJob) -> dict[str, str]:
    """The labels from editable fields of a request. They override `app_labels`."""
    facts = {
        "replicas": str(len(job.containers)),
        "grace-s": repr(float(job.grace_s)),
        "timeout-s": str(job.timeout_s or ""),
        **order_label(job.role_rules, job.counts),
    }
    return {PREFIX + name: value for name, value in facts.items()}


def _shown(container: DockerContainer) -> dict[str, Any]:
    kwargs = {name: value for name, value in container.kwargs.items() if value not in (None, [], {})}
    return {
        "image": container.image,
        "command": hide(argv(container.command)),
        **kwargs,
        "environment": {
            name: value and shown_value(name, value)
            for name, value in environment(container.kwargs.get("environment") or {}).items()
        },
    }


_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SIZE = re.compile(r"(-?\d+(?:\.\d+)?)\s*(?:([kmgt])b?|b)?", re.IGNORECASE)


def _camel(name: str) -> str:
    """`read_only` → `ReadOnly`, as the engine spells most names."""
    return "".join(part.capitalize() for part in name.split("_"))


# Values


def argv(command: str | Iterable[str]) -> list[str]:
    """A command line as a list; a text is split as in a shell."""
    return shlex.split(command) if isinstance(command, str) else list(command)


def environment(value: Mapping[str, Any] | Iterable[str]) -> dict[str, Any]:
    """Variables by name, from a dict or a list of `NAME=value`. A variable with None is to be removed."""
    if not isinstance(value, Mapping):
        value = {name: text if sign else None for name, sign, text in (each.partition("=") for each in value)}
    return {name: each if isinstance(each, str | None) else str(each) for name, each in value.items()}


def labels(value: Mapping[str, str] | Iterable[str]) -> dict[str, str]:
    """Labels by name, from a dict or a list of names alone."""
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
    """A mount, from the SDK's `Mount` or plain data: type, source, target and read_only."""
    known = ("type", "source", "target", "read_only")
    return {"ReadOnly": False, **_renamed(value, known, "docker.types.Mount has more")}


def device(value: str | Mapping[str, Any]) -> dict[str, Any]:
    """A device, from `source:destination:permissions`; the last two parts may be left out."""
    if isinstance(value, Mapping):
        return dict(value)
    source, _, rest = value.partition(":")
    destination, _, permissions = rest.partition(":")
    return {
        "PathOnHost": source,
        "PathInContainer": destination or source,
        "CgroupPermissions": permissions or "rwm",
    }


def healthcheck(value: Mapping[str, Any]) -> dict[str, Any]:
    made = _renamed(value, ("test", "interval", "timeout", "retries", "start_period"))
    if isinstance(made.get("Test"), str):
        made["Test"] = ["CMD-SHELL", made["Test"]]
    return made


def binds(value: Mapping[str, Any] | Iterable[str]) -> list[str]:
    """A list of `source:destination:mode`, from such a list or a dict `{source: {"bind": …, "mode": …}}`."""
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
    """Ports, from {"80/tcp": at}; at: a host port, None for any, (address, port), or a list of these."""
    return {
        key if "/" in key else f"{key}/tcp": [
            _binding(each) for each in (at if isinstance(at, list) else [at])
        ]
        for key, at in ((str(key), at) for key, at in value.items())
    }


def _binding(at: Any) -> dict[str, str]:
    """One binding of a port; without a port the engine picks one."""
    if isinstance(at, Mapping):
        return dict(at)
    address, port = ("", at) if not isinstance(at, tuple) else (*at, None)[:2]
    return {"HostIp": address, "HostPort": "" if port is None else str(port)}


def tmpfs(value: Mapping[str, str] | Iterable[str]) -> dict[str, str]:
    """Options by path, from a dict or a list of `path:options`."""
    return dict(value) if isinstance(value, Mapping) else dict(each.partition(":")[::2] for each in value)


def hosts(value: Mapping[str, str] | Iterable[str]) -> list[str]:
    """Hosts as a list of `name:address`."""
    return links(value) if isinstance(value, Mapping) else list(value)


def links(value: Mapping[str, str] | Iterable[tuple[str, str]]) -> list[str]:
    """Links as a list of `container:alias`."""
    pairs = sorted(value.items()) if isinstance(value, Mapping) else value
    return [f"{name}:{alias or name}" for name, alias in pairs]


def names(value: str | Iterable[str]) -> list[str]:
    """Names as a list, from a list or a text with commas."""
    return value.split(",") if isinstance(value, str) else list(value)


def _renamed(value: Mapping[str, Any], known: Iterable[str], more: str = "") -> dict[str, Any]:
    """Plain data with the engine's names; types of the SDK have these names already and stay as they are."""
    if any(name[:1].isupper() for name in value):
        return dict(value)
    if unknown := sorted(value.keys() - set(known)):
        listed = f"known are {', '.join(known)}" + (f"; {more}" if more else "")
        raise ValueError(f"unknown key `{unknown[0]}`: {listed}")
    return {"DeviceIDs" if name == "device_ids" else _camel(name): each for name, each in value.items()}


# Parameters

Field = tuple[str, Callable[[Any], Any]]
"""The engine's name of a parameter, and the function that converts its value."""


def _same(value: Any) -> Any:
    return value


def _each(one: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda values: [one(value) for value in values]


def _as_given(names: str) -> dict[str, Field]:
    """The parameters that the engine takes unchanged, under the same name."""
    return {name: (_camel(name), _same) for name in names.split()}


_DEVICE_REQUEST = ("driver", "count", "device_ids", "capabilities", "options")
_CONFIG = _as_given("domainname hostname mac_address network_disabled working_dir") | {
    "entrypoint": ("Entrypoint", argv),
    "healthcheck": ("Healthcheck", healthcheck),
    "labels": ("Labels", labels),
    "networking_config": ("NetworkingConfig", lambda value: {"EndpointsConfig": dict(value)}),
    "ports": ("ExposedPorts", lambda value: {port: {} for port in ports(value)}),
    "stdin_open": ("OpenStdin", _same),
    "stop_signal": ("StopSignal", str),
    "user": ("User", str),
}
_HOST = _as_given(
    """
    blkio_weight blkio_weight_device cap_add cap_drop cgroup_parent cpu_count cpu_percent cpu_period
    cpu_quota cpu_shares cpuset_cpus cpuset_mems device_cgroup_rules dns dns_search init ipc_mode
    isolation nano_cpus network_mode oom_kill_disable oom_score_adj pid_mode pids_limit privileged
    publish_all_ports restart_policy runtime security_opt storage_opt userns_mode volume_driver
    """
) | {
    "cgroupns": ("CgroupnsMode", _same),
    "cpu_rt_period": ("CPURealtimePeriod", _same),
    "cpu_rt_runtime": ("CPURealtimeRuntime", _same),
    "device_read_bps": ("BlkioDeviceReadBps", _same),
    "device_read_iops": ("BlkioDeviceReadIOps", _same),
    "device_requests": ("DeviceRequests", _each(partial(_renamed, known=_DEVICE_REQUEST))),
    "device_write_bps": ("BlkioDeviceWriteBps", _same),
    "device_write_iops": ("BlkioDeviceWriteIOps", _same),
    "devices": ("Devices", _each(device)),
    "dns_opt": ("DnsOptions", _same),
    "extra_hosts": ("ExtraHosts", hosts),
    "group_add": ("GroupAdd", lambda value: [str(each) for each in value]),
    "kernel_memory": ("KernelMemory", size),
    "links": ("Links", links),
    "log_config": ("LogConfig", partial(_renamed, known=("type", "config"))),
    "mem_limit": ("Memory", size),
    "mem_reservation": ("MemoryReservation", size),
    "mem_swappiness": ("MemorySwappiness", _same),
    "memswap_limit": ("MemorySwap", size),
    "mounts": ("Mounts", _each(mount)),
    "network": ("NetworkMode", _same),
    "ports": ("PortBindings", ports),
    "read_only": ("ReadonlyRootfs", _same),
    "shm_size": ("ShmSize", size),
    "sysctls": ("Sysctls", lambda value: {name: str(each) for name, each in value.items()}),
    "tmpfs": ("Tmpfs", tmpfs),
    "ulimits": ("Ulimits", _each(partial(_renamed, known=("name", "soft", "hard")))),
    "uts_mode": ("UTSMode", _same),
    "volumes": ("Binds", binds),
    "volumes_from": ("VolumesFrom", names),
}
REFUSED = {
    "auto_remove": "the outcome would be gone with the container; `launcher gc` removes finished ones",
    "command": "edit `command` of the container itself",
    "detach": "containers are always detached",
    "image": "edit `image` of the container itself",
    "init_path": "engines no longer know it; `init=True` uses their own",
    "lxc_conf": "engines no longer know it",
    "platform": "name an image of that platform by its digest",
    "remove": "the outcome would be gone with the container; `launcher gc` removes finished ones",
    "tty": "stdout and stderr could not be told apart in the logs",
    "use_config_proxy": "put the variables of the proxy into `environment`",
    "version": "it is the client that speaks a version of the API",
}
"""Parameter of the SDK that launcher refuses → what to do instead."""
PARAMETERS = frozenset({"environment", "name", *_CONFIG, *_HOST})
"""The parameters that a container can be created with."""


def engine_config(image: str, command: str | Iterable[str], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The body of POST /containers/create, without the name. Values of secrets must be in the environment.

    Raises SchedulerError for a parameter that `containers.create` lacks, with the nearest name, for one that
    launcher refuses, and for a value of the wrong form.
    Source: Docker Engine API 1.41, ContainerCreate.
    """
    kwargs = {name: value for name, value in kwargs.items() if value is not None}
    check_parameters(kwargs)
    return _given(
        {
            "Image": image,
            "Cmd": argv(command),
            "Env": _variables(environment(kwargs.get("environment") or {})),
            **_fields(kwargs, _CONFIG),
            "HostConfig": _given(_fields(kwargs, _HOST)),
        }
    )


def check_parameters(kwargs: Mapping[str, Any]) -> None:
    """Raise SchedulerError for a parameter in `kwargs` that is unknown or refused."""
    for name in sorted(kwargs.keys() - PARAMETERS):
        if name in REFUSED:
            raise SchedulerError(f"local_docker cannot take `{name}`: {REFUSED[name]}")
        hint = (
            did_you_mean(name, sorted(PARAMETERS))
            or "want a parameter of the Docker SDK's `containers.create`"
        )
        raise SchedulerError(f"`containers.create` has no parameter `{name}`", hint=hint)


def _fields(kwargs: Mapping[str, Any], fields: Mapping[str, Field]) -> dict[str, Any]:
    found = {}
    for name in (each for each in kwargs if each in fields):
        engine_name, convert = fields[name]
        try:
            found[engine_name] = convert(kwargs[name])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            why = f"{error} is missing" if isinstance(error, KeyError) else error
            # Without the value: it may contain a token, as the options of a log driver do.
            raise SchedulerError(f"cannot create a container with this `{name}`: {why}") from error
    return found


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    empty: tuple[Any, ...] = (None, {}, [], "")
    return {name: value for name, value in fields.items() if value not in empty}


def _variables(env: Mapping[str, str | None]) -> list[str]:
    """Variables as a list of `NAME=value`; a name alone, for None, removes a variable of the image."""
    for name, value in env.items():
        if isinstance(value, Secret):  # its text is the reference, which would pass for the value
            raise ValueError(f"the secret that {name} names was not read")
    return [name if value is None else f"{name}={value}" for name, value in env.items()]
