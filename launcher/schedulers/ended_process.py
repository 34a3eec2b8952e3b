"""The last lines of a process that has ended, and the CPU time and memory that it has used. Python >= 3.6.

A line of stderr is for the message of its app, several lines are for a report. The module imports next to
nothing: the supervisor must stay small.
"""

import resource
import sys

from launcher.holding.use import CGROUP, PROCESS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.holding.use import Measured

TAIL_BYTES = 8192
"""How much of the end of stderr is enough to find the line."""

_WIDTH, _HEAD = 160, 60


def last_line(tail: bytes, secrets: "tuple[str, ...]" = (), *, whole: bool = True) -> str:
    """The last line of this text that is not blank, on one line, cut, and safe for a terminal; "" for none.

    Args:
        secrets: strings to replace by `***`, also where the text has only one line of them.
        whole: whether the text is the whole output. Else its first line, which may begin within a secret,
            does not count.
    """
    lines = _lines(tail, secrets, whole)
    return _shown(lines[-1].strip()) if lines else ""


def last_lines(tail: bytes, count: int, secrets: "tuple[str, ...]" = ()) -> "list[str]":
    """The last non-blank lines of a whole text, each as in `last_line`, with its indentation."""
    return [_shown(line.rstrip()) for line in _lines(tail, secrets, True)[-count:]]


def _lines(tail: bytes, secrets: "tuple[str, ...]", whole: bool) -> "list[str]":
    text = _mask(plain(tail.decode("utf-8", "surrogateescape")), secrets).replace("\r", "\n")
    if not whole:
        text = text.partition("\n")[2]
    return [line for line in text.split("\n") if line.strip()]


def _shown(line: str) -> str:
    # As `launcher.text.printable`, which needs a newer Python.
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line.expandtabs(4))
    if len(text) <= _WIDTH:
        return text
    return f"{text[:_HEAD]} … {text[len(text) - _WIDTH + _HEAD + 3 :]}"  # the cause is often last


def _mask(text: str, secrets: "tuple[str, ...]") -> str:
    words = set(secrets)
    for secret in secrets:
        words.add(secret.encode("unicode_escape").decode("ascii"))
        words.update(secret.replace("\r", "\n").split("\n"))
    for word in sorted((each.strip() for each in words), key=len, reverse=True):
        if word:
            text = text.replace(word, "***")
    return text


def plain(text: str) -> str:
    """The text without its colours (SGR)."""
    first, *rest = text.split("\x1b[")
    for part in rest:
        after = part.lstrip("0123456789;:")
        first += after[1:] if after[:1] == "m" else "\x1b[" + part
    return first


_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes in a unit of ru_maxrss


def of_child(usage: resource.struct_rusage, peak: int = 0) -> "Measured":
    """The field `use` of the event of its end.

    A child's maximum of memory starts with that of the process that forks it: for a child that used no more,
    the memory is unknown, and 0 here. Source: getrusage(2), and fs/exec.c of Linux.

    Args:
        usage: from wait4(2), including all descendants that the child has waited for.
        peak: peak memory in bytes of a cgroup with this child's processes alone; 0 for none.
    """
    memory, source = peak, CGROUP
    if not memory:
        highest, floor = usage.ru_maxrss, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        memory, source = (highest * _UNIT, PROCESS) if highest > floor else (0, "")
    return [round(usage.ru_utime, 3), round(usage.ru_stime, 3), memory, source]


def of_rest(user_s: float, system_s: float) -> "Measured":
    """The field `use` of the event `quiet`, for processes that outlived their replica; [] for none."""
    return [round(user_s, 3), round(system_s, 3), 0, ""] if user_s + system_s >= 0.001 else []


def peak_of_task() -> int:
    """The peak memory in bytes of the cgroup that Slurm has made for this task; 0 where there is none.

    Source: cgroup.conf(5) of Slurm, "the cgroup hierarchy"; Linux, admin-guide/cgroup-v2, memory.peak.
    """
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if "/task_" not in path:
            continue
        if not controllers:
            name = f"/sys/fs/cgroup{path}/memory.peak"
        elif "memory" in controllers.split(","):
            name = f"/sys/fs/cgroup/memory{path}/memory.max_usage_in_bytes"
        else:
            continue
        text = _read(name).strip()
        if text.isdigit():
            return int(text)
    return 0


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
