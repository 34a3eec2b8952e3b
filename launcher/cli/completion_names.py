"""Names that the shell completes: jobs, targets, schedulers, components, codes. Must be fast."""

from __future__ import annotations

from launcher.files import read_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

SHELLS = ("bash", "zsh")

_MOST = 1000  # newest apps whose names are completed
_MOST_BYTES = 1 << 20  # of a job file


def function_of(kind: str) -> str:
    """The function of the completion script that offers the names of a kind."""
    return f"_launcher_{kind}"


def names(kind: str) -> list[str]:
    """The names of a kind of `KINDS`; empty on any error, since completion has no place to show one."""
    try:
        return sorted(set(KINDS[kind]()))
    except Exception:
        return []


def _apps() -> list[str]:
    """Jobs of the current directory's projects that have a recorded attempt."""
    from launcher.inventory import recorded
    from launcher.inventory.project import projects_here

    projects = {*projects_here()}
    return [app.name for app in recorded.newest(_MOST) if app.project in projects]


def _live() -> list[str]:
    """Running jobs of the current directory's projects, for `cancel`."""
    from launcher.inventory import recorded
    from launcher.inventory.project import projects_here

    projects = {*projects_here()}
    return [app.name for app in recorded.live() if app.project in projects]


def _schedulers() -> Iterable[str]:
    from launcher.schedulers.registry import get_scheduler_factories

    return get_scheduler_factories()


def _components() -> Iterable[str]:
    from launcher.components.finder import survey

    return survey([]).components


def _codes() -> Iterable[str]:
    from launcher.jobfile.diagnostics.diagnostic import CODES
    from launcher.plan.step import REASONS

    return [*CODES, *map(str, REASONS)]


def _targets() -> list[str]:
    """Targets of the job files here and one folder below, found by a scan of lines: parsing is too slow."""
    found: list[str] = []
    for path in _job_files():
        try:
            lines = read_regular(path, _MOST_BYTES).decode().splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        found += _targets_of_toml(lines) if path.endswith(".toml") else _targets_of_yaml(lines)
    return found


def _job_files() -> Iterator[str]:
    from glob import iglob

    for suffix in ("yaml", "yml", "toml"):
        for pattern in (f"*.launcher.{suffix}", f"*/*.launcher.{suffix}"):
            yield from iglob(pattern)


def _targets_of_yaml(lines: list[str]) -> Iterator[str]:
    """The keys directly below `targets:`."""
    inside, column = False, 0
    for line in lines:
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        indent = len(line) - len(line.lstrip())
        if not indent:
            inside, column = text.partition(":")[0] == "targets", 0
        elif inside and indent == (column := column or indent) and ":" in text:
            yield text.partition(":")[0].strip("\"'")


def _targets_of_toml(lines: list[str]) -> Iterator[str]:
    """The tables `[targets.NAME]` and below."""
    for line in lines:
        table = line.strip().strip("[]").split(".")
        if line.strip().startswith("[") and table[0] == "targets" and len(table) > 1:
            yield table[1].strip().strip("\"'")


KINDS: dict[str, Callable[[], Iterable[str]]] = {
    "apps": _apps,
    "live": _live,
    "schedulers": _schedulers,
    "components": _components,
    "runnable": _components,
    "codes": _codes,
    "targets": _targets,
}
"""Kind → function that returns its names. `runnable` is completed together with file names."""
