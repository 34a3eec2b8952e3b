"""The clusters that this state folder knows, and the places of its apps, in files below LAUNCHER_HOME/slurm.

::

    clusters/<hash>   JSON: host and job_dir
    places/<app id>   JSON: host, job_dir, and the row of the app in the store

LAUNCHER_HOME/slurm may itself be the `job_dir` of a cluster, which has other folders: `apps`, `arrays`,
`outputs` and `programs`.
"""

from __future__ import annotations

import os

from launcher import paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from launcher.state.records import AppRecord

SLURM = "slurm"
DEFAULT_JOB_DIR = "~/.launcher/slurm"
HOST_VARIABLE = "LAUNCHER_SLURM_HOST"

Place = tuple[str, str]
"""The place of apps: login node ("" for this machine), and `job_dir` as written."""

_PLACES = "places"
_EARLIER = "apps"
"""The folder in which older versions kept the notes about apps."""
_MANY = 8  # apps: one listing then takes less time than their notes


def root() -> str:
    return os.path.join(paths.home(), SLURM)


def place_of(cfg: Mapping[str, object]) -> Place:
    """The place that run options name; omitted options have their defaults."""
    host = cfg.get("host") or os.environ.get(HOST_VARIABLE) or ""
    return str(host), str(cfg.get("job_dir") or DEFAULT_JOB_DIR).rstrip("/") or "/"


def is_in_use() -> bool:
    """Whether apps were submitted from this state folder, or the user has named a login node."""
    return bool(os.environ.get(HOST_VARIABLE)) or os.path.isdir(root())


def places() -> list[Place]:
    """The places to which this state folder submitted apps, and the default place, if it may hold apps."""
    found = clusters()
    default = place_of({})
    if default[0] or (has_commands() and os.path.isdir(os.path.join(os.path.expanduser(default[1]), "apps"))):
        found.append(default)
    return list(dict.fromkeys(found))


def shared_engine() -> str:
    """See `Scheduler.shared_engine`."""
    return "Slurm" if places() else ""


def clusters() -> list[Place]:
    """Every place to which this state folder submitted apps."""
    return [place for name in _names("clusters") if (place := _place(_read("clusters", name)))]


def has_commands() -> bool:
    """Whether Slurm's commands are on this machine's PATH."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return any(os.access(os.path.join(folder, "sbatch"), os.X_OK) for folder in folders)


def place_of_app(app_id: str) -> Place | None:
    """The place of an app that was submitted from here; None for any other app."""
    from launcher.schedulers.appfolder import is_id

    return _place(_note(app_id)) if is_id(app_id) else None


def places_of(app_ids: Iterable[str]) -> dict[str, Place | None]:
    """`place_of_app` of many apps. Where this state folder has used one place only, reads no note."""
    ids, names = list(app_ids), _names("clusters")
    only = _place(_read("clusters", names[0])) if len(names) == 1 else None
    if only is None or len(ids) < _MANY:
        return {app_id: place_of_app(app_id) for app_id in ids}
    noted = _noted()
    return {app_id: only if app_id in noted else None for app_id in ids}


def noted_at(app_id: str) -> float | None:
    """The time at which an app was noted, epoch seconds; None for an app without a note."""
    try:
        return os.stat(_path(app_id)).st_mtime
    except OSError:
        return None


def app_ids() -> list[str]:
    """The apps that were submitted from this state folder, and not removed."""
    return sorted(_noted())


def remember(apps: Sequence[AppRecord], place: Place) -> None:
    """Note the place of apps, before any object of them is made. Raises StateError."""
    from hashlib import sha256

    from launcher.schedulers.record import write_json

    host, job_dir = place
    name = sha256(f"{host}\0{job_dir}".encode(errors="surrogateescape")).hexdigest()[:16]
    about = {"host": host, "job_dir": job_dir}
    write_json(paths.ensure(os.path.join(root(), "clusters")), name, about)
    folder = paths.ensure(os.path.join(root(), _PLACES))
    for app in apps:
        row: dict[str, object] = {
            "session": app.session,
            "name": app.name,
            "key": list(app.key) if app.job else None,
        }
        row |= {"number": app.number, "created_at": app.created_at}
        write_json(folder, app.app_id, {**about, **row})


def forget(app_id: str) -> None:
    try:
        os.unlink(_path(app_id))
    except FileNotFoundError:
        pass


def apps() -> Iterator[tuple[AppRecord, bool]]:
    """Every app that was submitted from here, as `registry.every_app` yields them. Asks no cluster."""
    from launcher.schedulers.record import row_of

    for app_id in app_ids():
        about = _note(app_id)
        if _place(about) is not None:
            yield row_of(SLURM, app_id, about), True


def _place(about: Mapping[str, object]) -> Place | None:
    host, job_dir = about.get("host"), about.get("job_dir")
    return (host, job_dir) if isinstance(host, str) and isinstance(job_dir, str) else None


def _noted() -> set[str]:
    earlier = (each for each in _names(_EARLIER) if os.path.isfile(os.path.join(root(), _EARLIER, each)))
    return {*_names(_PLACES), *earlier}


def _path(app_id: str) -> str:
    """The file with the note about an app. In the `apps` of a cluster there may be a folder of that name."""
    earlier = os.path.join(root(), _EARLIER, app_id)
    return earlier if os.path.isfile(earlier) else os.path.join(root(), _PLACES, app_id)


def _note(app_id: str) -> dict[str, Any]:
    return _read(os.path.basename(os.path.dirname(_path(app_id))), app_id)


def _names(folder: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(os.path.join(root(), folder)) if not name.startswith("."))
    except OSError:
        return []


def _read(folder: str, name: str) -> dict[str, Any]:
    from launcher.schedulers.appfolder import AppFolder

    try:
        return AppFolder(os.path.join(root(), folder)).read_json(name) or {}
    except OSError:
        return {}
