"""The probes of a run of a replica: when the next one is due, what is missing, when the run is late.

Pure; imports nothing; Python >= 3.6. `launcher/schedulers/probes.py` makes the probes; those of containers
are made by their watcher.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

FIRST_S = 0.01
"""The pause before the first probe; doubled from probe to probe up to the one that the role asks for."""

UNPROBED = "it was not probed yet"


class Probing:
    """The probes of one run of a replica.

    Args:
        probe: as `Probe.to_json` makes it.

    Attributes:
        timeout_s: seconds after its start when a replica that is not ready is late.
        why: what the last probe found missing, in one phrase.
    """

    __slots__ = ("_every_s", "_next_s", "probe", "timeout_s", "why")

    def __init__(self, probe: "Mapping[str, Any]") -> None:
        self.probe = probe
        self.timeout_s = probe.get("timeout", 60)  # type: float
        self.why = UNPROBED
        self._every_s = probe.get("every", 1)  # type: float
        self._next_s = FIRST_S

    def pause_s(self) -> float:
        """The pause before the next probe: each call returns a longer one."""
        pause_s, self._next_s = self._next_s, min(2 * self._next_s, self._every_s)
        return pause_s

    def is_waiting_for(self, what: str, why: str) -> None:
        """Note that a request or command has no result yet, unless an earlier result of it is known."""
        if not self.why.startswith(what):
            self.why = f"{what} {why}"

    def late(self) -> str:
        """The sentence for a late replica: `not ready after 60 s: nothing listens on port 80`."""
        return f"not ready after {self.timeout_s:g} s: {self.why}"


def bad_answer(answer: bytes) -> str:
    """Return the problem of the beginning of an HTTP answer, as a predicate; "" for 2xx and 3xx."""
    code = answer[9:12]
    if not answer.startswith(b"HTTP/1.") or not code.isdigit():
        return "has an answer that is not HTTP" if answer else "has no answer"
    return "" if code[:1] in (b"2", b"3") else f"answers {code.decode()}"


def no_file(name: str) -> str:
    return f"there is no file {name}"


def old_file(name: str) -> str:
    return f"the file {name} is older than the replica"


def bad_end(program: str, code: int) -> str:
    """Return the problem of an exit code, -N for signal N; "" for 0."""
    how = f"exited with {code}" if code >= 0 else f"was killed by signal {-code}"
    return f"`{program}` {how}" if code else ""
