"""The line of apps that share a machine: their requests and tickets, and the decision whose turn it is. Pure.

The order of the numbers is strict: the first app in line starts once its share is free, and no app overtakes
it, even if that app's share is free. All tables have the same order of numbers, so apps in several tables
never wait for each other in a circle. Supervisors import this module: it imports next to nothing.
"""

from __future__ import annotations

from launcher.text import memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

MACHINE = "machine"
"""The group of all apps that ask for something."""

GPU_IDS = "$<gpus>"
"""The macro in a request for the ids of a replica's GPUs, which are known when the app's turn comes."""

QUEUED, HOLDS, GONE = "queued", "holds", "gone"
CPU, MEMORY, GPUS, APPS = "cpu", "memory_mb", "gpus", "apps"
RESOURCES = (CPU, MEMORY, GPUS, APPS)
_BREAKS = {"\t", "\n"}
_SEPARATOR = "\t"
LINE = "line-"
"""The prefix of the name of a line: the apps that one process holds, which share a FIFO (`queue.py`)."""
ALL = ".bell.all"
"""The end of the name of the file with the tickets of all apps of a line."""
_END = b"\n"


# -- requests ----------------------------------------------------------------------------------------------


class Limit:
    """The amounts that the apps of one group may hold at once; None leaves an amount unlimited.

    Attributes:
        group: MACHINE, or a name such as `matrix default/default/sweep`.
        cpu: cores.
        memory_mb: MiB.
        apps: a number of apps.
        label: the name of the group for users, such as `sweep`; "" for the machine.
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


MARKS = ("home", "folder", "engine", "places")
"""Prefixes of facts that travel among the names of groups: older versions fail on a new field only."""


def marked(groups: Iterable[str], app: Any) -> list[str]:
    """The names of groups, then the facts of an app, except paths with line breaks."""
    facts = [(name, getattr(app, name, "")) for name in MARKS]
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
        folder: the folder of a local app's records; engine: the URL of a Docker app's engine; "" for others.
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


# -- tickets -----------------------------------------------------------------------------------------------


class Ticket:
    """The ticket of one app in one table.

    Attributes:
        number, app, cpu, memory_mb, gpus: see `Ask`.
        state: QUEUED, or HOLDS once the app has its share.
        groups: the names of its groups.
        dealt: the ids of the GPUs that the app holds.
        lacks: for the first in line, the (resource, group label) that is not free; else ("", "").
        places: the number of apps that the group which it lacks may have, as text; "" without such a limit.
        table, name: the table and the name of its file.
        home, folder, engine: see `Ask`.
        is_left: its holder has died, but the app may still have processes, so the ticket counts.
    """

    __slots__ = (
        "app", "cpu", "dealt", "engine", "folder", "gpus", "groups", "home", "is_left", "lacks", "memory_mb",
        "name", "number", "places", "state", "table",
    )  # fmt: skip

    def __init__(
        self,
        app: str,
        number: int,
        *,
        state: str = QUEUED,
        cpu: float = 0,
        memory_mb: int = 0,
        gpus: int = 0,
        groups: Sequence[str] = (),
        dealt: Sequence[str] = (),
        lacks: tuple[str, str] = ("", ""),
        places: str = "",
        table: str = "",
        name: str = "",
        home: str = "",
        folder: str = "",
        engine: str = "",
    ) -> None:
        self.app = app
        self.number = number
        self.state = state
        self.cpu = cpu
        self.memory_mb = memory_mb
        self.gpus = gpus
        self.groups = tuple(groups)
        self.dealt = tuple(dealt)
        self.lacks = lacks
        self.places = places
        self.table = table
        self.name = name
        self.home = home
        self.folder = folder
        self.engine = engine
        self.is_left = False

    @property
    def place(self) -> tuple[int, str, str]:
        """The sort key for the order of turns."""
        return self.number, self.app, self.home

    def is_of(self, home: str) -> bool:
        """Whether the ticket's app may be of this state folder: older versions do not record the folder."""
        return self.home in ("", home)

    def asks(self, resource: str) -> float:
        """The amount of CPU, MEMORY, GPUS or APPS that the app takes."""
        return 1 if resource == APPS else float(getattr(self, resource))


class Decision:
    """Whether an app `starts` now, with the GPUs `dealt`; else the tickets to `watch` for their next change.

    `lacks` is, for the first in line, the (resource, group label) that is not free; `places` see `Ticket`.
    """

    __slots__ = ("dealt", "lacks", "places", "starts", "watch")

    def __init__(
        self,
        *,
        starts: bool = False,
        dealt: Sequence[str] = (),
        watch: Sequence[Ticket] = (),
        lacks: tuple[str, str] = ("", ""),
        places: str = "",
    ) -> None:
        self.starts = starts
        self.dealt = tuple(dealt)
        self.watch = tuple(watch)
        self.lacks = lacks
        self.places = places


def decide(ask: Ask, others: Sequence[Ticket], gpu_others: Sequence[Ticket] = ()) -> Decision:
    """Decide on one app.

    Args:
        others: the live tickets of other apps in its table.
        gpu_others: those in its GPU table; none where it asks for no GPU.
    """
    holders = [each for each in others if each.state == HOLDS]
    gpu_holders = [each for each in gpu_others if each.state == HOLDS]
    taken = [device for each in gpu_holders for device in each.dealt]
    if ask.at_once:  # it gets the GPUs that the fewest apps use
        return Decision(starts=True, dealt=sorted(ask.devices, key=taken.count)[: ask.gpus])
    for tickets in (others, gpu_others):
        ahead = [each for each in tickets if each.state == QUEUED and each.place < ask.place]
        if ahead:
            return Decision(watch=[max(ahead, key=_place)])
    for limit in ask.limits:
        for resource in RESOURCES:
            sharing = [each for each in holders if limit.group in each.groups and each.asks(resource) > 0]
            if not _fits(ask, limit, resource, sharing):
                places = str(limit.apps) if resource == APPS else ""
                return Decision(watch=sharing, lacks=(resource, limit.label), places=places)
    free = [device for device in ask.devices if device not in taken]
    if len(free) < min(ask.gpus, len(ask.devices)) and gpu_holders:
        return Decision(watch=[each for each in gpu_holders if each.dealt], lacks=(GPUS, ""))
    return Decision(starts=True, dealt=free[: ask.gpus])


def of_app(app: str, home: str, tickets: Iterable[Ticket]) -> list[Ticket]:
    """The tickets of an app of this state folder; if there are none, its tickets without a state folder."""
    found = [each for each in tickets if each.app == app and each.is_of(home)]
    return [each for each in found if each.home] or found


def by_app(tickets: Iterable[Ticket]) -> dict[str, list[Ticket]]:
    """App id → its tickets, for `of_app` of many apps."""
    found: dict[str, list[Ticket]] = {}
    for each in tickets:
        found.setdefault(each.app, []).append(each)
    return found


def first(tickets: Iterable[Ticket]) -> Ticket | None:
    """The first in line; None where no app waits."""
    return min((each for each in tickets if each.state == QUEUED), key=_place, default=None)


def after(ask: Ask, tickets: Iterable[Ticket]) -> Ticket | None:
    """The next ticket in line behind an app."""
    behind = (each for each in tickets if each.state == QUEUED and each.place > ask.place)
    return min(behind, key=_place, default=None)


def _fits(ask: Ask, limit: Limit, resource: str, sharing: Sequence[Ticket]) -> bool:
    """Whether the app's share is free. An app that asks for more than there is runs alone."""
    most = getattr(limit, resource)
    mine = 1 if resource == APPS else getattr(ask, resource)
    if most is None or not mine or not sharing:
        return True
    return bool(sum(each.asks(resource) for each in sharing) + mine <= most)


_place: Callable[[Ticket], Any] = Ticket.place.fget  # type: ignore[attr-defined]


def encode(ticket: Ticket) -> bytes:
    """The contents of a ticket's file."""
    fields = (
        ticket.app,
        str(ticket.number),
        ticket.state,
        repr(float(ticket.cpu)),
        str(ticket.memory_mb),
        str(ticket.gpus),
        ",".join(ticket.dealt),
        *ticket.lacks,
        *marked(ticket.groups, ticket),
    )
    return (_SEPARATOR.join(fields) + "\n").encode(errors="surrogateescape")


def decode(data: bytes, table: str, name: str) -> Ticket | None:
    """The ticket in a file; None for an incomplete ticket, or one of a later version."""
    try:
        app, number, state, cpu, memory, gpus, dealt, lacks, label, *rest = (
            data.decode(errors="surrogateescape").partition("\n")[0].split(_SEPARATOR)
        )
        groups, marks = split_marks(rest)
        ticket = Ticket(
            app,
            int(number),
            state=state,
            cpu=float(cpu),
            memory_mb=int(memory),
            gpus=int(gpus),
            groups=groups,
            dealt=dealt.split(",") if dealt else (),
            lacks=(lacks, label),
            table=table,
            name=name,
            **marks,
        )
    except ValueError:
        return None
    return ticket if 0 <= ticket.cpu < float("inf") else None


def members(data: bytes, first: Ticket) -> list[Ticket]:
    """The tickets of a line, given the file of all its tickets and the ticket of the first one."""
    found: dict[object, Ticket] = {}
    for text in data.split(_END):
        ticket = decode(text, first.table, first.name)
        if ticket is not None and ticket.state == GONE:
            found.pop(ticket.place, None)
        elif ticket is not None:
            found[ticket.place] = ticket
    found[first.place] = first
    return list(found.values())


def app_ids(data: bytes, home: str) -> set[str]:
    """The ids of the apps in the file of a line that are of the state folder with this token."""
    found: set[str] = set()
    mark = f"home {home}"  # see `ask.marked`
    for text in data.decode(errors="surrogateescape").split("\n"):
        fields = text.split(_SEPARATOR)
        if mark in fields:
            (found.discard if fields[2] == GONE else found.add)(fields[0])
    return found


def message(app: str) -> bytes:
    """The second part of a message to the FIFO of a line: the app that it is about."""
    return app.encode(errors="surrogateescape") + _END


def apps_named(said: bytes) -> list[str]:
    """The apps that messages in the input of a FIFO name: other messages are single bytes."""
    found = (part.lstrip(b"l")[1:] for part in said.split(_END))
    return [each.decode(errors="surrogateescape") for each in found if each]


def amount(resource: str, value: float) -> str:
    """Return an amount as text: `1 core`, `0.5 cores`, `512 MiB of memory`, `16 GiB of memory`, `2 GPUs`."""
    if resource == MEMORY:
        return f"{memory(value)} of memory"
    count = f"{value:g}"
    return f"{count} {'core' if resource == CPU else 'GPU'}{'' if count == '1' else 's'}"
