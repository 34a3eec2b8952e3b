"""Find the logs of replicas, and read them as requested."""

from __future__ import annotations

import os
import time

from launcher.errors import SchedulerError
from launcher.schedulers import logs
from launcher.schedulers.local import attemptfile, rundir
from launcher.schedulers.local.logs import LogView

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from launcher.schedulers.local.restarts import RestartNotes
    from launcher.schedulers.logs import LogRecord
    from launcher.schedulers.restarts import Restart

    OnRestart = Callable[[str, Restart], None]


class ReplicaLogSource:
    """The logs of one replica. Raises SchedulerError when there is no such app, role or replica."""

    def __init__(self, app_dir: str, role: str, k: int, on_restart: OnRestart | None = None) -> None:
        """`on_restart`: called with the app id and each restart while the log is followed."""
        self._on_restart = on_restart
        self.app_dir = app_dir
        self.role = role
        self.k = k
        self.folder = _folder(app_dir, role, k)

    def records(
        self, stream: str, since: float | None, until: float | None, *, follow: bool
    ) -> Iterator[LogRecord]:
        if not follow:
            from launcher.schedulers.local.logrecords import records

            return records(self.folder, stream, since, until)
        from launcher.schedulers.local.follow import follow_records

        # Of several replicas that are read one by one, the one that failed reports the restart.
        notes = self.notes([(self.role, self.k)], since, of_cause=True)
        return follow_records(self.app_dir, (self.role, self.k, self.folder), stream, since, until, notes)

    def notes(
        self, names: Sequence[tuple[str, int]], since: float | None, *, of_cause: bool = False
    ) -> RestartNotes | None:
        """Reports the restarts of the followed replicas `names`; None where they are not wanted.

        `of_cause`: only the restarts that follow a failure of one of them.
        """
        on_restart = self._on_restart
        if on_restart is None:
            return None
        from launcher.schedulers.local.restarts import RestartNotes

        app_id = os.path.basename(self.app_dir)

        def report(restart: Restart) -> None:
            if not of_cause or (restart.role, restart.k) in names:
                on_restart(app_id, restart)

        return RestartNotes(self.app_dir, report, names, since)

    def start(self, stream: str, since: float | None, tail: int | None) -> int:
        """The place in the log to begin at."""
        if since is None and tail is None:
            return 0
        with LogView(self.folder, stream) as view:
            start, end = view.window(since)
            return view.place_of(start if tail is None else view.tail_start(tail, start, end))


def chunks(
    sources: Sequence[ReplicaLogSource],
    stream: str,
    since: float | None = None,
    until: float | None = None,
    *,
    tail: int | None = None,
    follow: bool = False,
) -> Iterator[tuple[str, int, bytes]]:
    """(role, replica, bytes): one replica after the other, or as they write when they are followed."""
    if stream not in logs.STREAMS:
        logs.stream_of(stream)  # says what there is
    if not follow:
        return _as_they_are(sources, stream, since, until, tail)
    if until is not None:
        return _followed_until(sources, stream, since, until)
    return _followed(sources, stream, since, tail)


def _as_they_are(
    sources: Sequence[ReplicaLogSource],
    stream: str,
    since: float | None,
    until: float | None,
    tail: int | None,
) -> Iterator[tuple[str, int, bytes]]:
    for source in sources:
        with LogView(source.folder, stream) as view:
            start, end = view.window(since, until)
            if tail is not None:
                start = view.tail_start(tail, start, end)
            for data in view.chunks(start, end):
                yield source.role, source.k, data


def _followed(
    sources: Sequence[ReplicaLogSource], stream: str, since: float | None, tail: int | None
) -> Iterator[tuple[str, int, bytes]]:
    from launcher.schedulers.local.follow import follow_chunks

    by_app: dict[str, dict[str, ReplicaLogSource]] = {}
    for source in sources:
        by_app.setdefault(source.app_dir, {})[source.folder] = source
    for app_dir, by_folder in by_app.items():
        began = since if tail is None else time.time()  # older restarts are not in the last lines alone
        names = {(source.role, source.k): folder for folder, source in by_folder.items()}
        notes = next(iter(by_folder.values())).notes([*names], began)
        starts = {folder: source.start(stream, since, tail) for folder, source in by_folder.items()}
        for folder, data in follow_chunks(app_dir, starts, stream, names, notes):
            yield by_folder[folder].role, by_folder[folder].k, data


def _followed_until(
    sources: Sequence[ReplicaLogSource], stream: str, since: float | None, until: float
) -> Iterator[tuple[str, int, bytes]]:
    """Read by record, because only records have the times to compare with `until`."""
    for source in sources:
        for _, line in logs.lines(source.records(stream, since, until, follow=True)):
            yield source.role, source.k, line


def _folder(app_dir: str, role: str, k: int) -> str:
    name = os.path.basename(app_dir)
    dirs = _log_dirs(app_dir)
    if dirs is None:
        if not os.path.isdir(app_dir):
            raise SchedulerError(f"there is no app `{name}`", hint="`launcher list` shows what there is")
        raise SchedulerError(f"{name} was not created yet: it has no logs")
    logs.require_replica(name, {each: len(folders) for each, folders in dirs.items()}, role, k)
    return dirs[role][k]


_MOST_APPS = 64
_known_dirs: dict[str, tuple[tuple[int, int, int], dict[str, list[str]]]] = {}


def _log_dirs(app_dir: str) -> dict[str, list[str]] | None:
    """Role → log folder of each replica; None before the app was created.

    A request names the folders of all replicas of its app, and each replica looks up its own: the result is
    cached while the file is unchanged.
    """
    try:
        found = os.stat(rundir.request(app_dir))
    except OSError:
        return None
    version = (found.st_ino, found.st_size, found.st_mtime_ns)
    known = _known_dirs.get(app_dir)
    if known is not None and known[0] == version:
        return known[1]
    request = attemptfile.read_request(app_dir)
    if request is None:
        return None
    if len(_known_dirs) >= _MOST_APPS:
        _known_dirs.clear()
    dirs: dict[str, list[str]] = request["role_log_dirs"]
    _known_dirs[app_dir] = (version, dirs)
    return dirs
