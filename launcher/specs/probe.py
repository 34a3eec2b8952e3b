"""Readiness: the probe of a role, and the conditions that a role may wait for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from launcher.dataclass import dataclass, fields

Condition = Literal["started", "ready", "succeeded"]
CONDITIONS: Final = ("started", "ready", "succeeded")
"""The conditions of another role to wait for: all its replicas were started, are ready, or ended with 0."""

EVERY_S: Final = 1.0
TIMEOUT_S: Final = 60.0
LEAST_EVERY_S: Final = 0.1
LONGEST_S: Final = 86400.0


@dataclass(frozen=True)
class Probe:
    """The probe that tells when a replica is ready: `port`, `http` with `port`, `file` or `command`.

    Attributes:
        port: of this replica; something listens there.
        http: path that answers a plain GET with 2xx or 3xx.
        file: relative to the replica's working directory; made or written since the replica was started.
        command: its exit code is 0; run as the replica is, in its working directory.
        every: seconds between two probes; the first ones follow faster.
        timeout: seconds from the start of the replica; then it has failed.
    """

    port: int | None = None
    http: str | None = None
    file: str | None = None
    command: tuple[str, ...] = ()
    every: float = EVERY_S
    timeout: float = TIMEOUT_S

    def to_json(self) -> dict[str, Any]:
        """Return its fields without default values."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        said = {name: value for name, value in found.items() if value != _DEFAULTS[name]}
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
        for name, least in (("every", LEAST_EVERY_S), ("timeout", self.every)):
            amount = getattr(self, name)
            if type(amount) not in (int, float) or not least <= amount <= LONGEST_S:
                message = f"{name} is at least {least:g} s and at most a day, got {amount!r}"
                yield name, "out-of-range", message
                return


_DEFAULTS = {each.name: each.default for each in fields(Probe)}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value
