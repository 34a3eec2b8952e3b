"""The run options of local_docker, the problems that it refuses, and notes about its differences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from posixpath import normpath
from typing import TypedDict

from launcher.schedulers.checks import (
    add_times,
    all_or_none,
    check_runnable,
    overridden,
    role_option_problems,
)
from launcher.schedulers.docker.labels import DEFAULT_GRACE_S, WATCHER_IMAGE
from launcher.schedulers.docker.names import NETWORK, OURS
from launcher.specs.app import AppDef, CfgVal, Probe, Role
from launcher.specs.check import Problem, macros_in
from launcher.specs.macros import SYMBOLIC_APP_ID, host_variable, needs_host, serving
from launcher.specs.mounts import BindMount, DeviceMount, VolumeMount
from launcher.specs.runopts import InvalidRunConfigException, runopts

_LEAST_MEMORY_MB = 6  # the engine's minimum
_LEAST_CPU = 0.01
_KERNELS = ("/dev/", "/proc/", "/sys/")  # file systems of a running container alone
_VOLUME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]+")


def check(app: AppDef, cfg: Mapping[str, CfgVal]) -> None:
    """Raise RejectedAppError for an invalid app, InvalidRunConfigException for options out of range."""
    options().check_values(cfg)
    for problem in _of_env(cfg.get("env")):
        raise InvalidRunConfigException(f"env: {problem.message}", "env", {"env": problem.path[-1]})
    check_runnable(app, problems(app, cfg))


def problems(app: AppDef, cfg: Mapping[str, CfgVal]) -> Iterator[Problem]:
    """Problems of an app and its options that cannot run in containers. Paths of options begin with `cfg`."""
    yield from _of_env(cfg.get("env"))
    yield from role_option_problems(app, options())
    for role in app.roles:
        yield from _of_role(role)
    yield from _fixed_ports(app, cfg)
    yield from _without_network(app, str(cfg.get("network") or NETWORK))


def unpinned(app: AppDef) -> Iterator[Problem]:
    """Warnings about images without tag and digest, for which Docker uses `latest`."""
    for role in app.roles:
        name = role.image.rpartition("/")[2]
        if name.strip() and not set(" :@") & set(name):
            message = f"the image of role `{role.name}` has no tag: `latest` is not pinned and may change"
            yield Problem(("roles", role.name, "image"), "unpinned-image", message)


def _of_env(env: CfgVal) -> Iterator[Problem]:
    for name, value in env.items() if isinstance(env, dict) else ():
        if not name or "=" in name or "\0" in name + value:
            message = f"{name!r} cannot be an environment variable"
            yield Problem(("cfg", "env", name), "unusable-name", message)


def _of_role(role: Role) -> Iterator[Problem]:
    at = ("roles", role.name)
    if not role.image.strip():
        yield Problem((*at, "image"), "missing-field", "it has no image, and local_docker runs images")
    elif any(c.isspace() for c in role.image):
        yield Problem((*at, "image"), "unusable-text", f"`{role.image}` cannot name an image")
    yield from _resource_problems(role)
    file = normpath(role.ready.file or "") if role.ready is not None else ""
    if file.startswith(_KERNELS):
        message = f"no engine sees files below /{file.split('/')[1]}: probe it by `command`"
        yield Problem((*at, "ready", "file"), "unusable-path", message)
    for index, mount in enumerate(role.mounts):
        for message in _mount_problems(mount):
            yield Problem((*at, "mounts", index), "unusable-path", message)


def _resource_problems(role: Role) -> Iterator[Problem]:
    at = ("roles", role.name, "resource")
    if 0 < role.resource.memMB < _LEAST_MEMORY_MB:
        message = f"Docker wants {_LEAST_MEMORY_MB} MiB of memory or more, got {role.resource.memMB}"
        yield Problem((*at, "memMB"), "out-of-range", message)
    if 0 < role.resource.cpu < _LEAST_CPU:
        message = f"Docker wants {_LEAST_CPU} of a CPU or more, got {role.resource.cpu}"
        yield Problem((*at, "cpu"), "out-of-range", message)
    if role.resource.gpu != int(role.resource.gpu):
        yield Problem((*at, "gpu"), "out-of-range", f"want a whole number of GPUs, got {role.resource.gpu}")


def _mount_problems(mount: BindMount | VolumeMount | DeviceMount) -> Iterator[str]:
    if not mount.dst_path.startswith("/"):
        yield f"`{mount.dst_path}` in the container: want an absolute path"
    elif _is_ours(mount.dst_path):
        yield (
            f"`{mount.dst_path}` in the container: the folders of the app are below {OURS}; "
            "mount it somewhere else"
        )
    elif normpath(mount.dst_path).strip("/") == "":
        yield "the root of a container is its image; mount it at a folder below `/`"
    if isinstance(mount, VolumeMount):
        if not _VOLUME.fullmatch(mount.src.replace(SYMBOLIC_APP_ID, "app").replace("${app_id}", "app")):
            yield f"`{mount.src}` cannot name a volume: want letters, digits, `_`, `.` and `-`, two or more"
        return
    if not mount.src_path.startswith(("/", "~", "$")):
        yield f"`{mount.src_path}` on the host: want an absolute path"
    if isinstance(mount, DeviceMount) and ":" in mount.src_path + mount.dst_path:
        yield f"a device cannot have `:` in its path, got `{mount.src_path}`"


def _is_ours(path: str) -> bool:
    """Whether an absolute path of a container is `/launcher`, or below it."""
    return f"/{normpath(path).lstrip('/')}/".startswith(f"{OURS}/")


def _fixed_ports(app: AppDef, cfg: Mapping[str, CfgVal]) -> Iterator[Problem]:
    """Problems of fixed ports: two replicas cannot publish one port of the host."""
    if cfg.get("ports") != "fixed":
        return
    user_of: dict[int, str] = {}
    for role in app.roles:
        if role.port_map and role.num_replicas > 1:
            message = f"ports: fixed is for one replica, and there are {role.num_replicas}: use ephemeral"
            reads = ("roles", role.name, "num_replicas")
            yield Problem(("roles", role.name, "port_map"), "constraint", message, (reads,))
        for name, port in role.port_map.items():
            first = user_of.setdefault(port, role.name)
            if first != role.name:
                message = f"ports: fixed, and role `{first}` has port {port} already: use ephemeral"
                path, reads = ("roles", role.name, "port_map", name), ("roles", first, "port_map")
                yield Problem(path, "constraint", message, (reads,))


def _without_network(app: AppDef, network: str) -> Iterator[Problem]:
    """Problems of hosts and ports on networks where replicas do not find each other."""
    if resolves_names(network):
        return
    for role in app.roles:
        for path, name, written in macros_in(role):
            if needs_host(name):
                message = (
                    f"`{written}` has no value on the network `{network}`, where replicas do not find each"
                    " other: leave `network` out, or name another one"
                )
                yield Problem(path, "constraint", message)
        if network == "none" and role.ready is not None and role.ready.port is not None:
            message = "no port can be reached on the network `none`: probe it by `command` or `file`"
            yield Problem(("roles", role.name, "ready", _kind(role.ready)), "constraint", message)


def probed_from_here(app: AppDef, host: str) -> Iterator[Problem]:
    """Problems of probes that reach no replica, since the engine at `host` is on another machine."""
    for role in app.roles:
        if role.ready is not None and role.ready.port is not None:
            message = (
                f"the engine {host} is on another machine, from which this one reaches no port of a replica:"
                " probe it by `command` or `file`"
            )
            yield Problem(("roles", role.name, "ready", _kind(role.ready)), "constraint", message)


def _kind(probe: Probe) -> str:
    return "port" if probe.http is None else "http"


def resolves_names(network: str) -> bool:
    """Whether replicas on this network find each other: by name, or as localhost."""
    return network not in ("none", "bridge", "default")


def shares_host_name(network: str) -> bool:
    """Whether replicas on this network have no network of their own and reach each other as localhost."""
    return network in ("host", "none") or network.startswith("container:")


def notes(app: AppDef, cfg: Mapping[str, CfgVal]) -> list[str]:
    """Notes on requests of the app that are fulfilled differently or not at all, but not refused."""
    network, out = str(cfg.get("network") or NETWORK), []
    if network == "bridge" and sum(role.num_replicas for role in app.roles) > 1:
        out.append(
            f"containers on the network `bridge` do not find each other by name; `{NETWORK}` does that"
        )
    roles = {role.name: role for role in app.roles}
    for name in serving(roles) if len(roles) > 1 and not resolves_names(network) else ():
        out.append(
            f"role `{name}`: replicas do not find each other on the network `{network}`, so"
            f" {host_variable(name)} is not set"
        )
    out += overridden(app)
    for role in app.roles:
        if role.max_retries > 0:
            out.append(
                f"role `{role.name}`: a restarted container keeps its files and its environment, so"
                " LAUNCHER_RESTART is not set"
            )
        if role.port_map and shares_host_name(network):
            out.append(f"role `{role.name}`: ports are not published on the network `{network}`")
        out += all_or_none(role, "local_docker")
    return out


_LIMITS = "core|cpu|data|fsize|locks|memlock|msgqueue|nice|nofile|nproc|rss|rtprio|rttime|sigpending|stack"
PULL_POLICIES = {
    "missing": "Pull an image that the engine does not have.",
    "always": "Pull every image.",
    "never": "Pull none: an image that is missing is an error.",
}
WATCHERS = {
    "client": "A process on the machine of the client that starts the app.",
    "engine": "A container of the engine: the client's machine may go away.",
}
PORT_POLICIES = {
    "ephemeral": "The engine picks the port.",
    "fixed": "The same number; of one replica only.",
    "none": "No port is published.",
}


class DockerOpts(TypedDict, total=False):
    """The run options that programs name, for type checkers; `options` has all."""

    copy_env: list[str] | None
    env: dict[str, str] | None
    privileged: bool | None


def options() -> runopts:
    opts = runopts()
    _of_containers(opts)
    _of_commands(opts)
    _of_processes(opts)
    _of_files(opts)
    _of_images_and_logs(opts)
    _of_watcher(opts)
    add_times(opts, DEFAULT_GRACE_S)
    return opts


def _of_containers(opts: runopts) -> None:
    opts.add(
        "copy_env",
        list[str],
        "variables of the submitting process that containers get, as patterns such as AWS_*",
        example=["AWS_*"],
    )
    what = "variables for all containers; those of a role win"
    opts.add("env", dict[str, str], what, example={"TZ": "UTC"})
    opts.add("privileged", bool, "give containers all rights on the engine's host", default=False)
    opts.add(
        "network",
        str,
        f"network of the containers: `{NETWORK}` is made when it is missing and resolves their names;"
        " or one that exists, or host, or none",
        default=NETWORK,
        pattern=r"[A-Za-z0-9][A-Za-z0-9_.:-]*",
        wants="the name of a network",
    )
    opts.add(
        "ports",
        str,
        "how port_map is published on 127.0.0.1: ephemeral (the engine picks the port), fixed (the same"
        " number; one replica only) or none",
        default="ephemeral",
        choices=PORT_POLICIES,
    )


def _of_commands(opts: runopts) -> None:
    opts.add(
        "user",
        str,
        "user that runs the commands, as name or uid[:gid]; the image's if not given",
        pattern=r"[^\s\x00]+",
        wants="a name or uid, with :group or :gid if need be",
        example="1000:1000",
        takes_number=True,
        is_of_role=True,
    )
    opts.add(
        "workdir",
        str,
        "folder in the container that commands run in, and that the files of a workspace go into; the"
        " image's if not given",
        pattern=r"/[^\x00]*",
        wants="an absolute path in the container",
        example="/srv/train",
    )
    opts.add(
        "override_entrypoint",
        bool,
        "run the role's entrypoint instead of the image's ENTRYPOINT, not as its arguments",
        default=False,
    )
    opts.add(
        "init",
        bool,
        "run the command below a small init process, which collects orphaned processes",
        default=True,
    )


def _of_processes(opts: runopts) -> None:
    opts.add(
        "ulimits",
        dict[str, str],
        "limits of a container's processes, as {nofile: 65536, memlock: -1}, or SOFT:HARD; of "
        + _LIMITS.replace("|", ", "),
        pattern=rf"(?:{_LIMITS})=(?:-1|[0-9]+)(?::(?:-1|[0-9]+))?",
        wants="limits such as {nofile: 65536, memlock: -1}",
        example={"nofile": "65536", "memlock": "-1"},
        takes_number=True,
        is_of_role=True,
    )
    opts.add(
        "cap_add",
        list[str],
        "capabilities that a container gets beside the usual ones, as SYS_PTRACE",
        pattern=r"[A-Z][A-Z0-9_]*",
        wants="capabilities such as SYS_PTRACE or NET_ADMIN, or ALL",
        example=["SYS_PTRACE"],
        is_of_role=True,
    )


def _of_files(opts: runopts) -> None:
    opts.add(
        "shm_size",
        str,
        "size of /dev/shm in a container, as 64m or 8g; the role's memory if not given, or 64m",
        pattern=r"[1-9][0-9]*(?:[bkmgBKMG]|[KMG]iB)?",
        wants="a size such as 64m, 8g or 8GiB",
        example="8g",
        takes_number=True,
        is_of_role=True,
    )
    opts.add(
        "tmpfs",
        list[str],
        "folders of a container that are in memory, as /run or /tmp:size=64m,mode=1777",
        pattern=r"/[^:\x00]*(?::[A-Za-z0-9_=,%.-]+)?",
        wants="absolute paths in the container, with :options if need be",
        example=["/run", "/tmp:size=64m"],
        is_of_role=True,
    )
    opts.add(
        "read_only",
        bool,
        "give containers a root file system that they cannot write to; mounts and tmpfs stay writable",
        default=False,
        is_of_role=True,
    )
    opts.add(
        "extra_hosts",
        dict[str, str],
        "names that a container knows beside those of DNS, as {db.local: 10.0.0.7}; host-gateway is the"
        " engine's host",
        pattern=r"[A-Za-z0-9_][A-Za-z0-9_.-]*=(?:[0-9a-fA-F:]*[.:][0-9a-fA-F.:]*|host-gateway)",
        wants="names and addresses such as {db.local: 10.0.0.7}",
        example={"db.local": "10.0.0.7"},
        is_of_role=True,
    )


def _of_images_and_logs(opts: runopts) -> None:
    opts.add(
        "image_pull",
        str,
        "when images are pulled: missing, always or never",
        default="missing",
        choices=PULL_POLICIES,
    )
    opts.add(
        "image_repo",
        str,
        "repository that images built from a workspace are named after and pushed to",
        pattern=r"(?:[A-Za-z0-9.-]+(?::[0-9]+)?/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*",
        wants="a repository such as ghcr.io/team/app, without a tag",
        example="ghcr.io/team/app",
    )
    opts.add("quiet", bool, "do not report pulling, building and pushing", default=False)
    opts.add(
        "log_max_size",
        str,
        "size of a replica's log file before a new one is begun",
        default="100m",
        pattern=r"[1-9][0-9]*[bkmgBKMG]?",
        wants="a size such as 100m or 1g",
    )
    opts.add("log_max_files", int, "log files per replica; older output is deleted", default=5, minimum=1)


def _of_watcher(opts: runopts) -> None:
    opts.add(
        "watcher",
        str,
        "the process that acts on needs, time limits, restarts, probes and services: on the machine of the"
        " client, or in a container of the engine",
        default="client",
        choices=WATCHERS,
    )
    opts.add(
        "watcher_image",
        str,
        "image with Python 3.10 or newer that `watcher: engine` runs in",
        default=WATCHER_IMAGE,
        pattern=r"[^\s\x00]+",
        wants="the name of an image",
    )
