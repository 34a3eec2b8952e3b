"""The machine that apps share: its resources, the requests of apps to it, and the folders of its tables.

There is a table for each boot of a machine: no ticket outlives its holder. The tables on the machine of an
engine are reported to clients elsewhere by a process there.
"""

from __future__ import annotations

import os
from collections import namedtuple  # `typing` takes longer than a look at the tables
from functools import cache

from launcher import paths
from launcher.errors import CommandError, UsageError
from launcher.turns.line import MACHINE, Ask, Limit, Ticket, decode, encode
from launcher.turns.table import remove_unused, summon, tickets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from launcher.specs.app import AppDef

GPUS_VARIABLE = "LAUNCHER_GPUS"
_CGROUPS = "/sys/fs/cgroup"
_MiB = 1024 * 1024
_BOOT = "boot-"
_Machine = namedtuple("_Machine", "cpu memory_mb gpus", defaults=[()])
_Total = namedtuple("_Total", "cpu memory_mb gpus")
_EngineTables = namedtuple("_EngineTables", "engine machine folder gpu_folder own of_gpus")
_BYTES = ("utf-8", "surrogateescape")


class Machine(_Machine):
    """The amounts that the apps on this machine share.

    Attributes:
        cpu: cores; a fraction where a control group allows one.
        memory_mb: MiB.
        gpus: the ids of the GPUs that may be dealt out, in the form of CUDA_VISIBLE_DEVICES.
    """

    __slots__ = ()
    cpu: float
    memory_mb: int
    gpus: tuple[str, ...]


def machine(*, with_gpus: bool) -> Machine:
    """Count cores and memory, and with `with_gpus` GPUs, for which a program may be started.

    Raises UsageError for a LAUNCHER_GPUS that is no number.
    """
    return Machine(_cores(), _memory_mb(), gpus() if with_gpus else ())


def gpus() -> tuple[str, ...]:
    """The ids of the GPUs that this process may use: LAUNCHER_GPUS of them, else all that the system shows.

    An inherited CUDA_VISIBLE_DEVICES narrows them. Raises UsageError for a LAUNCHER_GPUS that is no number.
    """
    given = os.environ.get(GPUS_VARIABLE, "").strip()
    if given and not given.isdecimal():
        raise UsageError(
            f"{GPUS_VARIABLE} is `{given}`, which is no number of GPUs",
            hint=f"set {GPUS_VARIABLE}=4, or unset it",
        )
    count = int(given) if given else count_gpus()
    found = tuple(str(index) for index in range(count))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return found
    return tuple(each for each in _listed(visible) if each in found or not each.isdecimal())


def given_gpus() -> tuple[str, ...]:
    """The ids of the GPUs of another machine, as far as LAUNCHER_GPUS counts them: see `gpus`."""
    return gpus() if os.environ.get(GPUS_VARIABLE, "").strip() else ()


def _listed(visible: str) -> list[str]:
    """The devices of CUDA_VISIBLE_DEVICES: numbers or UUIDs, up to the first invalid number.

    Source: CUDA C Programming Guide, "CUDA Environment Variables".
    """
    out: list[str] = []
    for each in map(str.strip, visible.split(",")):
        if not each or each.startswith("-"):
            break
        if each not in out:
            out.append(each)
    return out


def count_gpus() -> int:
    """The number of NVIDIA GPUs of this host, 0 when it is unknown."""
    names = _named_by_driver(os.environ.get("PATH", ""))
    if names is not None:
        return len(names)
    try:
        return sum(name.startswith("nvidia") and name[6:].isdigit() for name in os.listdir("/dev"))
    except OSError:
        return 0


def gpu_names() -> tuple[str, ...]:
    """The names of the NVIDIA GPUs of this host: "NVIDIA A100-SXM4-40GB". Empty when they are unknown."""
    return _named_by_driver(os.environ.get("PATH", "")) or ()


@cache
def _named_by_driver(path: str) -> tuple[str, ...] | None:
    """The GPUs by `nvidia-smi`, found in this PATH; asked once, as it takes a second. None without it.

    Its lines are `GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-…)`.
    """
    folders = (path or os.defpath).split(os.pathsep)
    if not any(os.path.exists(os.path.join(folder, "nvidia-smi")) for folder in folders):
        return None
    from launcher.command import run

    try:
        listed = run(["nvidia-smi", "-L"], timeout_s=20.0)
    except CommandError:
        return None
    lines = (line for line in listed.splitlines() if line.startswith("GPU "))
    return tuple(line.partition(": ")[2].partition(" (UUID")[0] for line in lines)


def _cores() -> float:
    """The number of cores that this process may use, or less where its control group has a quota."""
    is_bound = hasattr(os, "sched_getaffinity")
    count = float(len(os.sched_getaffinity(0)) if is_bound else os.cpu_count() or 1)
    quotas = [quota for folder in _folders("cpu") if (quota := _quota(folder))]
    return min([count, *quotas])


def _quota(folder: str) -> float | None:
    """The cores that a control group allows; None for any number.

    Source: kernel documentation, cgroup-v2 `cpu.max` and sched-bwc (version 1).
    """
    both = _read(f"{folder}/cpu.max").split()
    if not both:
        both = [_read(f"{folder}/cpu.cfs_quota_us"), _read(f"{folder}/cpu.cfs_period_us")]
    quota, period = (*both, "")[:2]
    if quota.isdecimal() and period.isdecimal() and int(period):
        return int(quota) / int(period)
    return None


def _memory_mb() -> int:
    """The memory of this machine in MiB, or less where the process's control group has a limit."""
    sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for folder in _folders("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = _read(f"{folder}/{name}")
            if limit.isdecimal():
                sizes.append(int(limit))
    return min(sizes) // _MiB


def _folders(controller: str) -> list[str]:
    """The folders of this process's control group and its parents, of version 2 or 1; the innermost first."""
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = f"{_CGROUPS}/{controllers}" if controllers else _CGROUPS
        parts = [part for part in path.split("/") if part and part != ".."]
        return ["/".join([root, *parts[:count]]) for count in range(len(parts), -1, -1)]
    return []


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""


# -- the requests of apps ----------------------------------------------------------------------------------


class Total(_Total):
    """The sum over all replicas of all roles: cores, MiB and GPUs."""

    __slots__ = ()
    cpu: float
    memory_mb: int
    gpus: int

    def __bool__(self) -> bool:
        return any(self)


def total(app: AppDef) -> Total:
    """The amounts that an app asks for; 0 where its roles leave an amount to the scheduler."""
    cpu: float = 0
    memory_mb = gpus = 0
    for role in app.roles:
        each, count = role.resource, role.num_replicas
        cpu += count * max(each.cpu, 0)
        memory_mb += count * max(each.memMB, 0)
        gpus += count * max(each.gpu, 0)
    return Total(cpu, memory_mb, gpus)


def ask_of(
    app: AppDef, app_id: str, machine: Machine | None, *, limits: Iterable[Limit] = (), at_once: bool = False
) -> Ask | None:
    """The request of an app; None where it asks for nothing, and belongs to no group with a limit.

    Makes the folders of the tables, and the token of this state folder. Raises StateError where that fails.

    Args:
        machine: this machine; None for that of the app's engine, where a process completes and holds the ask.
            Such an ask names no state folder, since app ids are unique on an engine. GPUs are dealt out where
            LAUNCHER_GPUS counts them; otherwise the engine chooses them, and no app waits for one.
        limits: the limits of its groups, beside the machine's.
    """
    wanted, limits = total(app), tuple(limits)
    if not wanted and not limits:
        return None
    if machine is None:
        devices = given_gpus() if wanted.gpus else ()
        return Ask(app_id, **wanted._asdict(), limits=limits, devices=devices, table="", at_once=at_once)
    return Ask(
        app_id,
        **wanted._asdict(),
        limits=(Limit(MACHINE, cpu=machine.cpu, memory_mb=machine.memory_mb), *limits),
        devices=machine.gpus if wanted.gpus else (),
        table=table_folder(),
        gpu_table=gpu_table_folder() if wanted.gpus else "",
        at_once=at_once,
        home=paths.make_token(),
    )


# -- the folders of its tables -----------------------------------------------------------------------------


def table_folder() -> str:
    """The table of this boot of this machine, below $LAUNCHER_SLOTS or LAUNCHER_HOME; made where missing."""
    return _made(paths.slots(), slots_table(), "LAUNCHER_SLOTS")


def gpu_table_folder() -> str:
    """The table of GPU tickets that all state folders of this user share; made where missing."""
    return _made(paths.runtime(), gpu_table(), "XDG_RUNTIME_DIR")


def _made(root: str, folder: str, variable: str) -> str:
    """Make a table, and remove tables of earlier boots beside it. Raises StateError for an unsafe one."""
    is_new = not os.path.isdir(folder)
    paths.ensure_private(root, folder, variable)
    if not is_new:
        return folder
    parent, name = os.path.split(folder)
    for other in os.listdir(parent):
        if other.startswith(_BOOT) and other != name:
            remove_unused(os.path.join(parent, other))
    return folder


def slots_table() -> str:
    """The path of `table_folder`."""
    return os.path.join(paths.slots(), _BOOT + boot())


def gpu_table() -> str:
    """The path of `gpu_table_folder`."""
    return os.path.join(paths.runtime(), "gpus", _BOOT + boot())


def boot() -> str:
    """An id of this boot of this machine, the same in all containers; else the machine's name."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return os.uname().nodename


# -- the tables on the machine of an engine ------------------------------------------------------------------


class EngineTables(_EngineTables):
    """The live tickets of one moment.

    Attributes:
        engine: the address of the engine.
        machine: its cores and memory; its GPUs are not counted.
        folder, gpu_folder: the paths of the tables, where the reporting process sees them.
        own: the tickets of the table of cores and memory.
        of_gpus: those of the table of GPUs.
    """

    __slots__ = ()
    engine: str
    machine: Machine
    folder: str
    gpu_folder: str
    own: Sequence[Ticket]
    of_gpus: Sequence[Ticket]


def tables_report() -> dict[str, Any]:
    """The tables of this process as JSON."""
    has, folders = machine(with_gpus=False), (slots_table(), gpu_table())
    found = [tickets(folder) for folder in folders]
    return {
        "machine": [has.cpu, has.memory_mb],
        "tables": [
            [folder, [[each.name, encode(each).decode(*_BYTES), each.is_left] for each in listed]]
            for folder, listed in zip(folders, found, strict=True)
        ],
    }


def left_tickets() -> list[Ticket]:
    """The tickets of dead holders in the tables of this process."""
    return [each for folder in (slots_table(), gpu_table()) for each in tickets(folder) if each.is_left]


def start_at_once(app_ids: Sequence[str]) -> dict[str, Any]:
    """Make apps in line take their shares at once; the apps that were in line, as JSON."""
    try:
        return {"started": sorted(summon(slots_table(), app_ids))}
    except FileNotFoundError:  # the table is missing
        return {"started": []}


def tables_of_report(engine: str, report: dict[str, Any]) -> EngineTables:
    """The inverse of `tables_report`. `engine`: see `EngineTables`."""
    cpu, memory_mb = report["machine"]
    (folder, own), (gpu_folder, of_gpus) = report["tables"]
    return EngineTables(
        engine,
        Machine(cpu, memory_mb),
        folder,
        gpu_folder,
        [ticket for each in own if (ticket := _ticket(folder, *each)) is not None],
        [ticket for each in of_gpus if (ticket := _ticket(gpu_folder, *each)) is not None],
    )


def _ticket(folder: str, name: str, text: str, is_left: bool) -> Ticket | None:
    ticket = decode(text.encode(*_BYTES), folder, name)
    if ticket is not None:
        ticket.is_left = is_left
    return ticket
