"""The rules of slurm: problems that it refuses, and notes about its differences."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from math import ceil

from launcher.schedulers.checks import BUILT_IMAGE, check_runnable, overridden, without_containers
from launcher.schedulers.replica_request import host_variables
from launcher.schedulers.slurm.options import KNOWN, MEMORY, OWN_OPTION, REFUSED, all_options, minutes_of
from launcher.specs.app import CONDITIONS, AppDef, CfgVal, Role
from launcher.specs.check import Problem, macro_texts, macros_in
from launcher.specs.macros import role_of_host
from launcher.specs.mounts import BindMount, DeviceMount, VolumeMount
from launcher.specs.resources import GPU_TYPE, gpu_type
from launcher.text import nearest, plural

OWN_MB = 25
"""MiB that launcher's own processes take beside a replica: they count against the memory of its job."""
_EXACT_MB = 1024
"""The MiB from which on a replica gets exactly the memory that it asks for, launcher's share included: such a
request is often a part of a node, and a little more would not fit."""

MARK = "\x01"
"""The character on both sides of a value that only a node of the cluster can fill in; see `request`."""


def check(app: AppDef, cfg: Mapping[str, CfgVal]) -> None:
    """Raise RejectedAppError for an invalid app, InvalidRunConfigException for options out of range."""
    all_options().check_values(cfg)
    check_runnable(app, problems(app, cfg))


def problems(app: AppDef, cfg: Mapping[str, CfgVal]) -> Iterator[Problem]:
    """Problems of an app and its options that cannot run on Slurm. Paths of options begin with `cfg`."""
    yield from _of_setup(cfg.get("setup"))
    yield from _of_sbatch(app, cfg)
    yield from _of_nodes(app, cfg)
    for role in app.roles:
        yield from _of_role(role)
        yield from _of_hosts(role, app)
    if not cfg.get("gres") and app.roles:
        yield from _of_gpus(app, app.roles[0])


def _of_setup(lines: CfgVal) -> Iterator[Problem]:
    for index, line in enumerate(lines if isinstance(lines, list) else ()):
        path = ("cfg", "setup", index)
        if "\n" in line or "\r" in line:
            yield Problem(path, "invalid-value", "want one line of bash in each item, got several")
        elif line.lstrip().startswith("#SBATCH"):
            message = "an #SBATCH line means nothing here: write its option in `sbatch`"
            yield Problem(path, "invalid-value", message)


def _of_sbatch(app: AppDef, cfg: Mapping[str, CfgVal]) -> Iterator[Problem]:
    """Problems of sbatch's options: those that launcher sets, that break launcher, or that seem mistyped."""
    given = cfg.get("sbatch")
    for name, value in given.items() if isinstance(given, dict) else ():
        path = ("cfg", "sbatch", name)
        plain = name.lstrip("-").replace("_", "-")
        if plain in OWN_OPTION:
            message = f"`{plain}` is an option of its own: write `{OWN_OPTION[plain]}` beside `sbatch`"
            yield Problem(path, "constraint", message)
        elif plain in REFUSED:
            yield Problem(path, "constraint", f"`{plain}` cannot be given: {REFUSED[plain]}")
        elif plain in MEMORY and requests_memory(app, cfg):
            message = f"`{plain}` excludes the memory of the roles: set `nomem: true`, or leave it out"
            yield Problem(path, "constraint", message)
        elif plain != name and plain in KNOWN:
            yield Problem(path, "unknown-field", f"want the long name without dashes in front: `{plain}`")
        elif name not in KNOWN and (near := nearest(name, sorted(KNOWN))):
            yield Problem(path, "unknown-field", f"sbatch has no option `{name}`; did you mean `{near}`?")
        elif not re.fullmatch(r"[^\W_][\w-]*", name, re.ASCII):
            message = f"{name!r} cannot be an option of sbatch: want its long name"
            yield Problem(path, "unknown-field", message)
        elif not value.isprintable():
            yield Problem(path, "invalid-value", f"want text on one line, got {value!r}")


def _of_nodes(app: AppDef, cfg: Mapping[str, CfgVal]) -> Iterator[Problem]:
    tasks = count_of(app)
    nodes, most = cfg.get("nodes"), cfg.get("ntasks_per_node")
    counts, per_node = ("roles", "*", "num_replicas"), ("cfg", "ntasks_per_node")
    if not isinstance(nodes, int):
        return
    if nodes > tasks:
        message = f"{plural(nodes, 'node')} for {plural(tasks, 'replica')}: a node without one is not given"
        yield Problem(("cfg", "nodes"), "constraint", f"{message}; want {tasks} or fewer", (counts,))
    elif isinstance(most, int) and nodes * most < tasks:
        message = f"{plural(nodes, 'node')} with {most} each hold no {plural(tasks, 'replica')}"
        message += f"; want {ceil(tasks / nodes)} or more"
        yield Problem(per_node, "constraint", message, (counts, ("cfg", "nodes")))


def _of_role(role: Role) -> Iterator[Problem]:
    at = ("roles", role.name)
    if role.image.strip() and role.image != BUILT_IMAGE:
        message = (
            f"Slurm runs no containers yet, and the role has the image `{role.image}`: "
            'write `image: ""` in the target for Slurm, and make its programs available by `setup`'
        )
        yield Problem((*at, "image"), "constraint", message)
    if role.resource.gpu % 1:
        message = f"want a whole number, got {role.resource.gpu}"
        yield Problem((*at, "resource", "gpu"), "out-of-range", message)
    for name in role.resource.devices:
        message = f"Slurm knows no device `{name}`: request it by the option `gres`, and leave it out here"
        yield Problem((*at, "resource", "devices", name), "constraint", message)
    for index, mount in enumerate(role.mounts):
        if problem := _of_mount(mount):
            yield Problem((*at, "mounts", index), "constraint", problem)
    for path, text in macro_texts(role):
        if MARK in text:
            yield Problem((*at, *path), "unusable-text", "text on Slurm cannot hold the character U+0001")


def _of_mount(mount: BindMount | VolumeMount | DeviceMount) -> str:
    if isinstance(mount, VolumeMount):
        return f"Slurm has no volumes, and the role has `{mount.src}`: use a folder that every node sees"
    if isinstance(mount, DeviceMount):
        return f"Slurm hands out no device files, and the role has `{mount.src_path}`: use the option `gres`"
    if mount.src_path != mount.dst_path:
        return (
            f"Slurm mounts nothing, so `{mount.src_path}` does not appear at `{mount.dst_path}`:"
            " name the folder by its path on the cluster, or travel with a `workspace`"
        )
    return ""


def _of_hosts(role: Role, app: AppDef) -> Iterator[Problem]:
    """Problems of hosts of roles that start later: Slurm chooses their nodes when they start."""
    roles = {each.name: each for each in app.roles}
    for path, name, written in macros_in(role):
        named = app.roles[0].name if name == "rank0_host" else role_of_host(name)
        other = roles.get(named or "")
        if other is not None and role.name in awaited(other, app):
            why = f"role `{other.name}` starts after `{role.name}`, so its host is not known here yet"
            yield Problem(path, "constraint", f"`{written}`: {why}", (("roles", "*", "depends_on"),))


def _of_gpus(app: AppDef, first: Role) -> Iterator[Problem]:
    """Problems of roles whose number of GPUs differs from the first role's, or whose kind from the first."""
    remedy = (
        "and the replicas of a Slurm job get equal shares: request the GPUs of a node by the option `gres`,"
        " or make two jobs"
    )
    most = max(first.resource.gpu, 0)
    for role in app.roles[1:]:
        if (count := max(role.resource.gpu, 0)) != most:
            message = f"its replicas have {count:g} GPUs and those of `{first.name}` have {most:g}, {remedy}"
            path, reads = ("roles", role.name, "resource", "gpu"), ("roles", first.name, "resource")
            yield Problem(path, "constraint", message, (reads,))
    named = {role.name: kind for role in app.roles if (kind := gpu_type(role.resource))}
    for name, kind in named.items():
        other, wanted = next(iter(named.items()))
        if kind != wanted:
            message = f"its GPUs are of the kind `{kind}` and those of `{other}` of `{wanted}`, {remedy}"
            kind_at = ("roles", name, "resource", "capabilities", GPU_TYPE)
            yield Problem(kind_at, "constraint", message, (("roles", other, "resource"),))


# The share of each task of the job: equal for all roles


def count_of(app: AppDef) -> int:
    """The number of replicas of all roles."""
    return sum(role.num_replicas for role in app.roles)


def cpus_per_task(app: AppDef) -> int:
    """Whole cores for each replica; 0 where no role asks for any."""
    return ceil(max([0, *(role.resource.cpu for role in app.roles)]))


def requests_memory(app: AppDef, cfg: Mapping[str, CfgVal]) -> bool:
    return not cfg.get("nomem") and any(role.resource.memMB > 0 for role in app.roles)


def mem_per_cpu(app: AppDef, cfg: Mapping[str, CfgVal]) -> int:
    """MiB for each core; 0 where no role asks for memory, or the cluster manages none."""
    if not requests_memory(app, cfg):
        return 0
    asked = max(role.resource.memMB for role in app.roles)
    return ceil(max(asked, min(asked + OWN_MB, _EXACT_MB)) / max(cpus_per_task(app), 1))


def gpus_per_task(app: AppDef, cfg: Mapping[str, CfgVal]) -> str:
    """GPUs for each replica, as `2` or `a100:2`; "" for none, or where `gres` requests them for each node."""
    count = max([0, *(int(role.resource.gpu) for role in app.roles)])
    return "" if cfg.get("gres") or not count else ":".join([*filter(None, [_kind_of_gpus(app)]), str(count)])


def _kind_of_gpus(app: AppDef) -> str:
    return next(filter(None, (gpu_type(role.resource) for role in app.roles)), "")


def notes(app: AppDef, cfg: Mapping[str, CfgVal]) -> list[str]:
    """Notes on requests of the app that are fulfilled differently or not at all, but not refused."""
    return [*overridden(app), *_of_shares(app, cfg), *_of_options(cfg), *_of_roles(app)]


def _of_shares(app: AppDef, cfg: Mapping[str, CfgVal]) -> Iterator[str]:
    asked = [(role, role.resource) for role in app.roles]
    cpus = cpus_per_task(app)
    if any(resource.cpu > 0 and resource.cpu != cpus for _, resource in asked):
        yield f"each replica gets {plural(cpus, 'core')}: whole ones, and all replicas of a job alike"
    most = max((resource.memMB for _, resource in asked), default=0)
    if cfg.get("nomem") and most > 0:
        yield "memory is not requested: the option nomem is set"
    elif any(0 < resource.memMB < most for _, resource in asked):
        yield f"each replica gets {most:g} MiB of memory: all replicas of a job alike"
    if requests_memory(app, cfg):
        yield (
            f"up to {OWN_MB} MiB more memory are requested for launcher's own processes"
            if most < _EXACT_MB
            else f"launcher's own processes take {OWN_MB} MiB of the memory of each replica"
        )
    for role, resource in asked:
        if resource.gpu > 0 and cfg.get("gres"):
            yield f"role `{role.name}`: its GPUs are not requested: gres requests those of a node"
        elif resource.gpu > 0 and not gpu_type(resource) and (kind := _kind_of_gpus(app)):
            yield f"role `{role.name}`: its GPUs are of the kind `{kind}`: all replicas of a job alike"
        if resource.capabilities.keys() - {GPU_TYPE}:
            yield f"role `{role.name}`: capabilities of its resource are not used: the option constraint is"


def _of_options(cfg: Mapping[str, CfgVal]) -> Iterator[str]:
    limit, timeout_s = cfg.get("time"), cfg.get("timeout_s")
    minutes = minutes_of(limit) if isinstance(limit, str) else None
    if minutes is not None and isinstance(timeout_s, int) and minutes * 60 <= timeout_s:
        yield f"Slurm stops the job after {limit} (option time), which is before its timeout of {timeout_s} s"
    given = cfg.get("sbatch")
    for name in given if isinstance(given, dict) else ():
        if name not in KNOWN:
            yield f"`{name}` is no option of sbatch itself: a plug-in of the cluster has to know it"


def _of_roles(app: AppDef) -> Iterator[str]:
    hosts = host_variables(app)
    for role in app.roles:
        yield from without_containers(role, "slurm", "its nodes", "the ports of their node")
        known = known_at_start(role, app, hosts.values())
        if later := [variable for variable, name in hosts.items() if name not in known]:
            named = " and ".join(filter(None, (", ".join(later[:-1]), later[-1])))
            yield f"role `{role.name}`: no {named}, for it may start before that host is known"


# Hosts: Slurm chooses the node of a role when the role starts


def awaited(role: Role, app: AppDef) -> dict[str, int]:
    """Every role that must have started before this role, with the strongest of its conditions (0 to 2)."""
    roles = {each.name: each for each in app.roles}
    found: dict[str, int] = {}
    waiting = [role]
    seen = set()
    while waiting:
        each = waiting.pop()
        if each.name in seen:
            continue
        seen.add(each.name)
        for name, condition in each.depends_on.items():
            rank = CONDITIONS.index(condition) if condition in CONDITIONS else 0
            found[name] = max(found.get(name, 0), rank)
            if name in roles:
                waiting.append(roles[name])
    return found


def known_at_start(role: Role, app: AppDef, names: Collection[str]) -> list[str]:
    """The roles among `names` that have started when `role` starts, or start together with it."""
    before = awaited(role, app)
    roles = {each.name: each for each in app.roles}
    return [
        name
        for name in names
        if name == role.name
        or name in before
        or all(before.get(each, -1) >= rank for each, rank in awaited(roles[name], app).items())
    ]
