"""Containers, images, networks and volumes as the engine describes them. Pure: reads the engine's JSON.

The list of containers is cheap (one call for all) and has names, labels, state and exit code. Inspect, one
call a container, adds exact times, the OOM mark, restarts, the error of a failed start, ports and hostname.
"""

from __future__ import annotations

import base64
import calendar
import json
import re
from collections.abc import Mapping
from typing import Any

from launcher.dataclass import dataclass, field

_EXIT_CODE = re.compile(r"(?:Exited|Restarting) \((-?\d+)\)")
_TIME = re.compile(r"(\d+)-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(\.\d+)?(?:Z|([+-])(\d\d):(\d\d))$")
_ENDED = ("exited", "dead")
_NEVER_RAN = ("created", "removing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """The description of one container.

    Attributes:
        state: created, running, paused, restarting, removing, exited or dead; any other state counts as live.
        exit_code: the exit code of the last run, for a container that has ended or waits for a restart.
        inspected: whether inspect described it; else the fields that the list lacks have their defaults.
        oom: the kernel killed a process of its last run because it was out of memory.
        restarts: how often the engine's restart policy has started it again.
        error: why the engine could not start it, "" when it could, or did not have to.
        ports: published ports, container port → (host address, host port).
        network: the name of its network, as it was created.
        addresses: its addresses in its networks while it runs; none with the network of the host, or of
        another container.
        working_dir: "/" when it names none.
        last_run_ended_at: the end of the run before this one, for a container that runs again.
        exec_ids: commands that were started in it and have not ended.
        ended_unseen: it has ended, and still has its place in a network, which an engine takes away as soon
            as it sees the end: the engine was away, and made an exit code up if it could not learn it later.
    """

    id: str
    name: str
    image_id: str = ""
    state: str
    labels: Mapping[str, str] = field(default_factory=dict)
    exit_code: int | None = None
    created_at: float | None = None
    ports: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    inspected: bool = False
    started_at: float | None = None
    ended_at: float | None = None
    oom: bool = False
    restarts: int = 0
    error: str = ""
    hostname: str = ""
    network: str = ""
    addresses: tuple[str, ...] = ()
    working_dir: str = ""
    last_run_ended_at: float | None = None
    exec_ids: tuple[str, ...] = ()
    ended_unseen: bool = False

    @property
    def was_started(self) -> bool:
        """Whether the container was ever started. A container whose start failed is still `created`.

        The list does not show it for a container that is being removed.
        """
        return self.state not in _NEVER_RAN or self.started_at is not None

    @property
    def live(self) -> bool:
        """Whether it runs, or will run again by itself. Unknown states count as live: work that is wrongly
        taken for ended would run twice."""
        return self.state not in (*_NEVER_RAN, *_ENDED)

    @property
    def ended(self) -> bool:
        return self.state in _ENDED


def from_list(entry: Mapping[str, Any]) -> Container:
    """The container of one entry of `GET /containers/json`."""
    ended = _EXIT_CODE.match(entry.get("Status", ""))
    return Container(
        id=entry["Id"],
        # Names of links to it have a second slash (`/web/db`).
        name=next((name[1:] for name in entry.get("Names") or () if name.count("/") == 1), ""),
        image_id=entry.get("ImageID", ""),
        state=entry.get("State", ""),
        labels=entry.get("Labels") or {},
        exit_code=int(ended[1]) if ended else None,
        created_at=float(entry["Created"]) if "Created" in entry else None,
        ports={
            port["PrivatePort"]: (port.get("IP", ""), port["PublicPort"])
            for port in entry.get("Ports") or ()
            if port.get("PublicPort")
        },
        network=(entry.get("HostConfig") or {}).get("NetworkMode") or "",
    )


def from_inspect(data: Mapping[str, Any]) -> Container:
    """The container of a response of `GET /containers/ID/json`."""
    state, config, host = data["State"], data.get("Config") or {}, data.get("HostConfig") or {}
    status = state["Status"]
    started, ended = epoch(state.get("StartedAt")), epoch(state.get("FinishedAt"))
    if started and ended and status in _ENDED:
        started = min(started, ended)  # the engine may record the start of a short run after its end
    return Container(
        id=data["Id"],
        name=data.get("Name", "").lstrip("/"),
        image_id=data.get("Image", ""),
        state=status,
        labels=config.get("Labels") or {},
        exit_code=state.get("ExitCode") if status in (*_ENDED, "restarting") else None,
        created_at=epoch(data.get("Created")),
        ports=_published(data),
        inspected=True,
        started_at=started,
        ended_at=ended if status in (*_ENDED, "restarting", "removing") else None,
        oom=bool(state.get("OOMKilled")),
        restarts=data.get("RestartCount") or 0,
        error=state.get("Error") or "",
        hostname=config.get("Hostname") or "",
        network=host.get("NetworkMode") or "",
        addresses=_addresses(data),
        working_dir=config.get("WorkingDir") or "/",
        last_run_ended_at=ended if status == "running" else None,
        exec_ids=tuple(data.get("ExecIDs") or ()),
        ended_unseen=status in _ENDED and any(each.get("EndpointID") for each in _networks(data)),
    )


def usage_of(data: Mapping[str, Any]) -> tuple[float, float, int]:
    """The use of a run so far, from a response of `GET /containers/ID/stats`.

    Returns the CPU times of the program and of the kernel for it, in s, and memory in bytes: the maximum so
    far where the engine reports it (cgroup v1), else the present use without files that the kernel can drop
    at once. A value that the engine does not report is 0. Source: `calculateMemUsageUnixNoCache` of the
    docker command.
    """
    cpu = (data.get("cpu_stats") or {}).get("cpu_usage") or {}
    user, system = cpu.get("usage_in_usermode") or 0, cpu.get("usage_in_kernelmode") or 0
    memory = data.get("memory_stats") or {}
    details = memory.get("stats") or {}
    dropped = details.get("total_inactive_file", details.get("inactive_file")) or 0
    highest = memory.get("max_usage") or max(0, (memory.get("usage") or 0) - dropped)
    if not (user or system):
        user = cpu.get("total_usage") or 0
    return user / 1e9, system / 1e9, int(highest)


def epoch(text: str | None) -> float | None:
    """Convert the engine's RFC 3339 time to epoch seconds. None for its "never", which is the year 1."""
    match = _TIME.match(text or "")
    if match is None or match[1] == "0001":
        return None
    whole = calendar.timegm(tuple(int(part) for part in match.groups()[:6]))
    away = 0 if match[8] is None else (int(match[9]) * 60 + int(match[10])) * 60
    return whole + float(match[7] or 0) - (away if match[8] == "+" else -away)


def _addresses(data: Mapping[str, Any]) -> tuple[str, ...]:
    found = [each.get(name) for name in ("IPAddress", "GlobalIPv6Address") for each in _networks(data)]
    return tuple(filter(None, found))


def _networks(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(((data.get("NetworkSettings") or {}).get("Networks") or {}).values())


def _published(data: Mapping[str, Any]) -> dict[int, tuple[str, int]]:
    """{"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "49153"}]} → {80: ("127.0.0.1", 49153)}."""
    ports = (data.get("NetworkSettings") or {}).get("Ports") or {}
    return {
        int(port.partition("/")[0]): (at[0].get("HostIp", ""), int(at[0]["HostPort"]))
        for port, at in ports.items()
        if at and at[0].get("HostPort")
    }


_DIRECTORY, _SYMLINK = 1 << 31, 1 << 27  # bits of Go's FileMode


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The configuration of an image.

    Attributes:
        id: `sha256:…`.
        user, working_dir: "" when it names none: root, and /.
    """

    id: str
    user: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    entrypoint: tuple[str, ...] = ()
    working_dir: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    repo_tags: tuple[str, ...] = ()
    repo_digests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """A network, volume or image as an entry of a list. `id` and `name` of a volume are the same."""

    id: str
    name: str
    labels: Mapping[str, str]
    created_at: float | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PathStat:
    """A path in a container, with the time of its last write.

    `link` is the final target of a symbolic link, "" for other paths.
    """

    path: str
    mode: int
    is_dir: bool
    link: str
    written_at: float | None = None

    @property
    def executable(self) -> bool:
        return bool(self.mode & 0o111) and not self.is_dir


@dataclass(frozen=True, slots=True)
class Exec:
    """A command that was started in a container. `exit_code` is None while it runs, or when it never ran."""

    argv: tuple[str, ...]
    running: bool
    exit_code: int | None


def image(data: Mapping[str, Any]) -> Image:
    """The image of a response of `GET /images/NAME/json`."""
    config = data.get("Config") or {}
    return Image(
        id=data["Id"],
        user=config.get("User") or "",
        env=dict(entry.partition("=")[::2] for entry in config.get("Env") or ()),
        entrypoint=tuple(config.get("Entrypoint") or ()),
        working_dir=config.get("WorkingDir") or "",
        labels=config.get("Labels") or {},
        repo_tags=tuple(data.get("RepoTags") or ()),
        repo_digests=tuple(data.get("RepoDigests") or ()),
    )


def labelled(data: Mapping[str, Any]) -> Labelled:
    """The object of an entry of the list of networks, volumes or images."""
    created = data.get("Created", data.get("CreatedAt"))
    tags = tuple(tag for tag in data.get("RepoTags") or () if tag != "<none>:<none>")
    name = data.get("Name") or next(iter(tags), data.get("Id", ""))
    return Labelled(
        id=data.get("Id") or name,
        name=name,
        labels=data.get("Labels") or {},
        created_at=epoch(created) if isinstance(created, str) else created,
        tags=tags,
    )


def path_stat(header: str, path: str) -> PathStat:
    """The content of the header X-Docker-Container-Path-Stat in the response for `path`."""
    data = json.loads(base64.b64decode(header))
    mode = data["mode"]
    link = data.get("linkTarget", "") if mode & _SYMLINK else ""
    is_dir, written_at = bool(mode & _DIRECTORY), epoch(data.get("mtime"))
    return PathStat(path, mode & 0o777, is_dir, link, written_at)


def exec_of(data: Mapping[str, Any]) -> Exec:
    """The command of a response of `GET /exec/ID/json`."""
    process, running = data["ProcessConfig"], bool(data["Running"])
    argv = (process["entrypoint"], *(process.get("arguments") or ()))
    return Exec(argv, running, None if running else data.get("ExitCode"))
