"""Images, networks and volumes as the engine describes them. Pure: reads the engine's JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from launcher.schedulers.docker.client.container import epoch

_DIRECTORY, _SYMLINK = 1 << 31, 1 << 27  # of Go's FileMode


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
    command: tuple[str, ...] = ()
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
    size: int
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
        command=tuple(config.get("Cmd") or ()),
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
    return PathStat(path, data["size"], mode & 0o777, is_dir, link, written_at)


def exec_of(data: Mapping[str, Any]) -> Exec:
    """The command of a response of `GET /exec/ID/json`."""
    process, running = data["ProcessConfig"], bool(data["Running"])
    argv = (process["entrypoint"], *(process.get("arguments") or ()))
    return Exec(argv, running, None if running else data.get("ExitCode"))
