"""The request of one app to this machine, and the limits that it shares with others. Values only."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

_BREAKS = {"\t", "\n"}
MACHINE = "machine"
"""The group of all apps that ask for something."""

GPUS = "$<gpus>"
"""Stands in a request for the ids of a replica's GPUs, which are known when its turn comes."""


class Limit:
    """The amounts that the apps of one group may hold at once; None leaves an amount unlimited.

    Attributes:
        group: MACHINE, or a name such as `matrix default/default/sweep`.
        cpu: cores.
        memory_mb: MiB.
        apps: a number of apps.
        label: the group in words, such as `sweep`; "" for the machine.
    """

    __slots__ = ("apps", "cpu", "gpus", "group", "label", "memory_mb")

    def __init__(
        self,
        group: str = MACHINE,
        *,
        cpu: float | None = None,
        memory_mb: int | None = None,
        gpus: int | None = None,
        apps: int | None = None,
        label: str = "",
    ) -> None:
        self.group = group
        self.cpu = cpu
        self.memory_mb = memory_mb
        self.gpus = gpus
        self.apps = apps
        self.label = label

    def to_list(self) -> list[Any]:
        """Plain values, for marshal and JSON."""
        return [self.group, self.cpu, self.memory_mb, self.gpus, self.apps, self.label]

    @classmethod
    def from_list(cls, given: Sequence[Any]) -> Limit:
        """The inverse of `to_list`."""
        group, cpu, memory_mb, gpus, apps, label = given
        return cls(group, cpu=cpu, memory_mb=memory_mb, gpus=gpus, apps=apps, label=label)


MARKS = ("home", "folder", "engine")
"""Facts on an app that travel as names of groups: older versions fail on a new field, not on a group."""


def marked(groups: Iterable[str], app: Any) -> list[str]:
    """The names of groups, then the facts of an app, except paths with line breaks."""
    facts = [(name, getattr(app, name)) for name in MARKS]
    return [*groups, *(f"{name} {value}" for name, value in facts if value and not _BREAKS & {*value})]


def split_marks(groups: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Split the list of `marked` into names of groups and facts."""
    names, marks = [], {}
    for group in groups:
        kind, _, value = group.partition(" ")
        if kind in MARKS:
            marks[kind] = value
        else:
            names.append(group)
    return names, marks


class Ask:
    """The sum of the requests of an app's roles, and the tables that decide its turn.

    Attributes:
        app: its app id.
        number: the number of its ticket: lower numbers come first, in every table.
        cpu: cores; memory_mb: MiB; gpus: a number of GPUs. 0 where it asks for none.
        limits: the limits of its groups, the machine's first.
        devices: the ids of the GPUs that may be dealt to it.
        table: the folder of tickets; gpu_table: the folder of GPU tickets, "" for an app without GPUs.
        at_once: it takes its share without waiting in line, even beyond the limits.
        home: the token of its state folder, since app ids of two folders may be equal; "" where unknown.
        folder: the folder of a local app's records; engine: the URL of an app's Docker engine. Else "".
    """

    __slots__ = (
        "app", "at_once", "cpu", "devices", "engine", "folder", "gpu_table", "gpus", "home", "limits",
        "memory_mb", "number", "table",
    )  # fmt: skip

    def __init__(
        self,
        app: str,
        *,
        table: str,
        number: int = 0,
        cpu: float = 0,
        memory_mb: int = 0,
        gpus: int = 0,
        limits: Sequence[Limit] = (),
        devices: Sequence[str] = (),
        gpu_table: str = "",
        at_once: bool = False,
        home: str = "",
        folder: str = "",
        engine: str = "",
    ) -> None:
        self.app = app
        self.number = number
        self.cpu = cpu
        self.memory_mb = memory_mb
        self.gpus = gpus
        self.limits = tuple(limits)
        self.devices = tuple(devices)
        self.table = table
        self.gpu_table = gpu_table
        self.at_once = at_once
        self.home = home
        self.folder = folder
        self.engine = engine

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for marshal and JSON."""
        out: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__ if name not in MARKS}
        out["limits"] = [each.to_list() for each in (*self.limits, *map(Limit, marked((), self)))]
        out["devices"] = list(self.devices)
        return out

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Ask:
        """The inverse of `to_dict`."""
        limits = [Limit.from_list(each) for each in given["limits"]]
        names, marks = split_marks(each.group for each in limits)
        return cls(**{**given, "limits": [each for each in limits if each.group in names], **marks})

    @property
    def name(self) -> str:
        """The name of its tickets."""
        return f"{self.number}-{self.app}" + (f".{self.home}" if self.home else "")

    @property
    def place(self) -> tuple[int, str, str]:
        """See `Ticket.place`."""
        return self.number, self.app, self.home

    @property
    def tables(self) -> tuple[str, ...]:
        """The folders that hold its ticket, in the order in which they are locked."""
        return (self.table, self.gpu_table) if self.gpu_table else (self.table,)


def shares(dealt: Sequence[str], wanted: Iterable[int]) -> list[str]:
    """The GPUs of each replica as CUDA_VISIBLE_DEVICES has them: `(0, 1, 4), (2, 1)` gives `["0,1", "4"]`.

    `dealt` has the app's GPUs, `wanted` the number for each replica. The last ones may get fewer.
    """
    out, begin = [], 0
    for count in wanted:
        out.append(",".join(dealt[begin : begin + count]))
        begin += count
    return out
