"""AppDef, Role, Resource and Probe: what the user wants to run; AppDryRunInfo: its request before it is sent.

These are the plain dataclasses that component functions fill in. Launcher treats them as values: it copies
with `dataclasses.replace` and never edits a caller's. Documents, checks, macros and the schema of plans
follow from ROLE_FIELDS, which is derived from `Role`: a new field of that class reaches all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, TypeVar

from launcher.dataclass import MISSING as NO_DEFAULT, dataclass, field, fields

if TYPE_CHECKING:
    from launcher.specs.mounts import BindMount, DeviceMount, VolumeMount

MISSING = "<MISSING>"
NONE = "<NONE>"
ALL = "all"
GiB = 1024
"""MiB in a GiB: `Resource(cpu=1, gpu=0, memMB=4 * GiB)`."""

CfgVal = str | int | float | bool | list[str] | dict[str, str] | None
"""The types of a scheduler option."""


@dataclass
class Resource:
    """The resources of one replica.

    `cpu` counts cores and may be a fraction, `memMB` is in MiB. A value of -1 leaves that part to the
    scheduler. `capabilities` constrain the machine: `gpu_type` is the kind of its GPUs. `devices` counts
    special devices by name, `tags` are for users and tools. The constructor checks nothing;
    `launcher.specs.check` does.
    """

    cpu: float
    gpu: int
    memMB: int
    capabilities: dict[str, Any] = field(default_factory=dict)
    devices: dict[str, int] = field(default_factory=dict)
    tags: dict[str, object] = field(default_factory=dict)

    @staticmethod
    def copy(original: Resource, **capabilities: Any) -> Resource:
        """A new resource with `capabilities` added; a keyword wins over what `original` has."""
        from copy import deepcopy

        made = deepcopy(original)
        made.capabilities.update(capabilities)
        return made


NULL_RESOURCE = Resource(cpu=-1, gpu=-1, memMB=-1)
"""No resource: the default of every Role. All roles share this instance, which is never edited."""


class RetryPolicy(str, Enum):
    """The restart policy: a failed replica restarts alone, with its role, or with the whole app."""

    REPLICA = "REPLICA"
    APPLICATION = "APPLICATION"
    ROLE = "ROLE"

    __str__ = str.__str__


Condition = Literal["started", "ready", "succeeded"]
CONDITIONS: Final = ("started", "ready", "succeeded")
"""The states of an awaited role: all its replicas were started, are ready, or have ended with 0."""

PROBE_EVERY_S: Final = 1.0
PROBE_TIMEOUT_S: Final = 60.0
LEAST_PROBE_EVERY_S: Final = 0.1
LONGEST_PROBE_S: Final = 86400.0


@dataclass(frozen=True)
class Probe:
    """The probe that tells when a replica is ready: `port`, `http` with `port`, `file` or `command`.

    Attributes:
        port: a port of the replica on which a program listens.
        http: path that answers a plain GET with 2xx or 3xx.
        file: a path, relative to the replica's working directory, that was written since the replica started.
        command: a command whose exit code is 0; run like the replica, in its working directory.
        every: seconds between two probes; the first ones follow faster.
        timeout: seconds from the start of the replica until the replica counts as failed.
    """

    port: int | None = None
    http: str | None = None
    file: str | None = None
    command: tuple[str, ...] = ()
    every: float = PROBE_EVERY_S
    timeout: float = PROBE_TIMEOUT_S

    def to_json(self) -> dict[str, Any]:
        """Return its fields without default values."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        said = {name: value for name, value in found.items() if value != _PROBE_DEFAULTS[name]}
        return {name: _plain(value) for name, value in said.items()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Probe:
        """Return the probe from the value of `to_json`."""
        return cls(**{**value, "command": tuple(value.get("command", ()))})

    def faults(self) -> Iterator[tuple[str, str, str]]:
        """Yield (field or "", code, message) of each fault."""
        for name in ("http", "file"):
            if not isinstance(getattr(self, name), str | None):
                yield name, "wrong-type", f"{name} is text, got {getattr(self, name)!r}"
                return
        if not isinstance(self.command, tuple | list):
            yield "command", "wrong-type", f"command is a tuple of texts, got {self.command!r}"
            return
        kinds = [name for name in ("http", "file", "command") if getattr(self, name)]
        if self.port is not None and "http" not in kinds:
            kinds.insert(0, "port")
        if len(kinds) > 1:
            has = f"{', '.join(kinds[:-1])} and {kinds[-1]}"
            yield "", "constraint", f"a probe is one of port, http, file and command, and this has {has}"
        elif not kinds:
            yield "", "missing-field", "a probe needs `port`, `http` with `port`, `file` or `command`"
        if self.http is not None and self.port is None:
            yield "", "missing-field", "`http` needs the `port` that answers"
        http = self.http if self.http is not None else "/"
        if not http.startswith("/") or not http.isprintable() or " " in http:
            yield "http", "unusable-text", f"want a path such as `/health`, got `{self.http}`"
        if self.port is not None and (type(self.port) is not int or not 1 <= self.port <= 65535):
            yield "port", "out-of-range", f"a port is an integer from 1 to 65535, got {self.port!r}"
        for name, least in (("every", LEAST_PROBE_EVERY_S), ("timeout", self.every)):
            amount = getattr(self, name)
            if type(amount) not in (int, float) or not least <= amount <= LONGEST_PROBE_S:
                message = f"{name} is at least {least:g} s and at most a day, got {amount!r}"
                yield name, "out-of-range", message
                return


_PROBE_DEFAULTS = {each.name: each.default for each in fields(Probe)}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def at_least(number: int) -> dict[str, Any]:
    """Return the `metadata` of a field whose numbers have this lower bound."""
    return {"least": number}


BY_CAPABILITY = {"by_capability": True}
"""For the `metadata` of a field: only schedulers that name it in `Scheduler.supports` take a value for it."""

LONGEST_DELAY_S = 300
"""The longest pause before a restart, in seconds."""

TAKES_MACROS = {"takes_macros": True}
"""For the `metadata` of a field: its texts may hold macros (`launcher.specs.macros`)."""


@dataclass
class Role:
    """One kind of replica: `num_replicas` processes or containers with one command line.

    `cfg` has the options of the scheduler that a role may set (`runopt.is_of_role`): they win over those of
    the app. `entrypoint`, `args`, the values of `env`, `metadata` and the sources of `mounts` may hold macros
    (`launcher.specs.macros`); values of `env` may be references to secrets (`launcher.specs.secret`).
    `min_replicas` is for schedulers that can start with fewer replicas. `base_image` is
    deprecated and kept for its place among the positional arguments. `retry_delay` is the pause before the
    first restart in seconds; it doubles with each further one, up to `LONGEST_DELAY_S`.

    A `service` serves the other roles: it is stopped when every replica of these has ended with 0, and the
    app has succeeded. `ready` is the probe that says when a replica is ready, `depends_on` the roles that
    this one waits for, each with a condition ("started", "ready" or "succeeded").

    A field added here is in documents, checks and plans (ROLE_FIELDS). It needs a default,
    and a document leaves that out: no digest changes.
    """

    name: str
    image: str
    min_replicas: int | None = field(default=None, metadata=at_least(0))
    base_image: str | None = None
    entrypoint: str = field(default=MISSING, metadata=TAKES_MACROS)
    args: list[str] = field(default_factory=list, metadata=TAKES_MACROS)
    env: dict[str, str] = field(default_factory=dict, metadata=TAKES_MACROS)
    num_replicas: int = field(default=1, metadata=at_least(1))
    max_retries: int = field(default=0, metadata=at_least(0))
    retry_policy: RetryPolicy = RetryPolicy.APPLICATION
    resource: Resource = field(default_factory=lambda: NULL_RESOURCE)
    port_map: dict[str, int] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict, metadata=TAKES_MACROS)
    mounts: list[BindMount | VolumeMount | DeviceMount] = field(default_factory=list, metadata=TAKES_MACROS)
    retry_delay: int = field(default=0, metadata={**at_least(0), "most": LONGEST_DELAY_S, **BY_CAPABILITY})
    service: bool = field(default=False, metadata=BY_CAPABILITY)
    ready: Probe | None = field(default=None, metadata=BY_CAPABILITY)
    depends_on: dict[str, Condition] = field(default_factory=dict, metadata=BY_CAPABILITY)
    cfg: dict[str, CfgVal] = field(default_factory=dict, metadata=BY_CAPABILITY)

    def pre_proc(self, scheduler: str, dryrun_info: AppDryRunInfo[Any]) -> AppDryRunInfo[Any]:
        """Hook for subclasses: a dry run passes its info to each role in order and uses the returned one."""
        return dryrun_info


@dataclass
class AppDef:
    """An app: roles that run together. `metadata` is for people and tools, no part of what runs.

    `output` asks for an output folder of its job even if no role mentions one.

    Launcher never edits the AppDef of a caller. The constructor checks nothing; `check_app` does.
    """

    name: str
    roles: list[Role] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)
    output: bool = False


T = TypeVar("T")


def _other_name(name: str) -> property:
    """Return another name of an attribute."""
    return property(lambda self: getattr(self, name), lambda self, value: setattr(self, name, value))


class AppDryRunInfo(Generic[T]):
    """The request of a scheduler, the function that prints it, and what the request was made from.

    The request carries the symbolic app id, so one info may be scheduled more than once.

    Args:
        fmt: the request as text.
        app: the AppDef of the request; None if the scheduler does not provide it.
        cfg: its resolved run options.
        scheduler: the name that the Runner knows the scheduler by, else the scheduler's own.
        build: builds the app's workspace and gives the info to schedule, from the one that the caller holds
            and may have edited; None where nothing is to be built.
    """

    def __init__(
        self,
        request: T,
        fmt: Callable[[T], str],
        *,
        app: Any = None,
        cfg: Mapping[str, Any] | None = None,
        scheduler: str | None = None,
        build: Callable[[AppDryRunInfo[T]], AppDryRunInfo[T]] | None = None,
    ) -> None:
        self.request = request
        self.app = app
        self.cfg: Mapping[str, Any] = cfg or {}
        self.scheduler = scheduler
        self._fmt = fmt
        self._build = build

    def completed(
        self,
        *,
        app: Any = None,
        cfg: Mapping[str, Any] | None = None,
        scheduler: str | None = None,
        build: Callable[[AppDryRunInfo[T]], AppDryRunInfo[T]] | None = None,
    ) -> AppDryRunInfo[T]:
        """A copy, of the scheduler's class, with these parts replaced."""
        from copy import copy

        made = copy(self)
        made.app = self.app if app is None else app
        made.cfg = self.cfg if cfg is None else cfg
        made.scheduler = self.scheduler if scheduler is None else scheduler
        made._build = self._build if build is None else build
        return made

    def built(self) -> AppDryRunInfo[T]:
        """The info to schedule, with its workspace built. Raises the build's exceptions."""
        return self if self._build is None else self._build(self)

    # The names in TorchX, which a scheduler with a `submit_dryrun` of its own sets
    _app = _other_name("app")
    _cfg = _other_name("cfg")
    _scheduler = _other_name("scheduler")

    def __repr__(self) -> str:
        return self._fmt(self.request)


VARIABLES = "dict[str, str]"
"""The kind of `env`: its values may be references to secrets."""
JSON = "dict[str, Any]"
PROBE = "Probe"
DEPENDENCIES = "dict[str, Condition]"
OPTIONS = "dict[str, CfgVal]"
MOUNTS = "list[BindMount | VolumeMount | DeviceMount]"


class RoleField(NamedTuple):
    """One field of a role.

    Attributes:
        kind: its type in `Role` without the option of None: "int", "list[str]".
        default: a document leaves the field out at this value; None for a field without a default.
        least, most: the bounds of a number; None for no bound.
        by_capability: whether only some schedulers take a value for it.
        takes_macros: whether the run fills in macros such as `$<app_id>`.
    """

    name: str
    kind: str
    default: Any
    least: int | None = None
    most: int | None = None
    by_capability: bool = False
    takes_macros: bool = False

    @property
    def is_mutable(self) -> bool:
        return self.default is not None and type(self.default).__hash__ is None


def _read_off() -> dict[str, RoleField]:
    table = {}
    for each in fields(Role):
        default = each.default if each.default_factory is NO_DEFAULT else each.default_factory()
        if default is NO_DEFAULT:
            default = {"image": ""}.get(each.name)
        kind = str(each.type).removesuffix(" | None")
        table[each.name] = RoleField(each.name, kind, default, **each.metadata)
    return table


ROLE_FIELDS = _read_off()
"""Name → field, in the order of the arguments of `Role`."""

ALWAYS = ("name", "entrypoint")
"""The fields that every role in a document has."""

_ORDER = "args env image base_image resource mounts port_map num_replicas min_replicas max_retries"
_ORDER += " retry_policy metadata"
DOCUMENT_FIELDS = [ROLE_FIELDS[name] for name in dict.fromkeys((*ALWAYS, *_ORDER.split(), *ROLE_FIELDS))]
"""The fields in the order in which documents have them since `lr1`; fields of later versions follow."""

CAPABILITIES = [each for each in ROLE_FIELDS.values() if each.by_capability]
"""The fields that a scheduler may leave unsupported; see `Scheduler.supports`."""
