"""Read the logs of apps for `logs` and `run`, in pieces as large as the options allow."""

from __future__ import annotations

from launcher.errors import LauncherError
from launcher.files import allow_open_files
from launcher.inventory.logs import records
from launcher.inventory.recorded import scheduler_of
from launcher.schedulers.logs import LogPart
from launcher.specs.jobkey import DEFAULT_TARGET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from launcher.cli.console import Console
    from launcher.cli.render.live_frames import LiveFrames
    from launcher.cli.render.log_lines import Shaper
    from launcher.schedulers.logs import LogRecord
    from launcher.schedulers.restarts import Restart
    from launcher.state.records import AppRecord

    Logs = list[tuple[AppRecord, "LogRequest"]]

_FILES = 2  # open files for each replica's log


class LogRequest:
    """A selection of the output of replicas, and the way to show it.

    Attributes:
        since, until: seconds since the epoch.
        prefixes: one per replica, or empty.
        runs: replica → start and end of the run whose output is wanted; None for all output.
        as_json: whether each line is a JSON object.
        raw: whether control sequences reach a terminal as they are.
        is_held: whether the app has not started, so that its start is awaited first.
        on_restart: called with each restart while the logs are followed.
        live: the display that shows lines and progress bars; `read` then yields nothing.
    """

    def __init__(self, replicas: list[tuple[str, int]], stream: str = "combined") -> None:
        self.replicas = replicas
        self.stream = stream
        self.since: float | None = None
        self.until: float | None = None
        self.tail: int | None = None
        self.follow = False
        self.raw = False
        self.as_json = False
        self.is_held = False
        self.regex: str | None = None
        self.timestamps = False
        self.prefixes: list[bytes] = []
        self.runs: Mapping[tuple[str, int], tuple[float, float | None]] | None = None
        self.on_restart: Callable[[Restart], None] | None = None
        self.live: LiveFrames | None = None

    def prefix(self, number: int) -> bytes:
        return self.prefixes[number] if self.prefixes else b""

    def shaper(self, app: AppRecord, number: int) -> Shaper:
        """Return the shaper of a replica's output: it turns pieces with their times into lines."""
        from launcher.cli.render.log_lines import JsonShaper, Shaper

        if self.as_json:
            role, k = self.replicas[number]
            facts = {"job": app.job, "attempt": app.number, "app_id": app.app_id, "role": role, "replica": k}
            return JsonShaper(facts, regex=self.regex)
        return Shaper(self.prefix(number), regex=self.regex, timestamps=self.timestamps)


class AttemptNames:
    """Names attempts in the form that `launcher logs` accepts in this directory.

    Args:
        projects: the projects of this directory.
        target: the target that the user has named; "" for none.
    """

    def __init__(self, projects: Collection[str], target: str = "") -> None:
        self._projects = projects
        self._target = target

    def of(self, app: AppRecord) -> str:
        is_here = app.project in self._projects and app.target in (DEFAULT_TARGET, self._target)
        return f"{app.job}@{app.number}" if app.job and is_here else app.app_id


def display(logs: Logs, console: Console) -> None:
    """Set up live progress bars if several replicas are followed on a terminal."""
    first = logs[0][1]
    if first.follow and first.prefixes and not first.timestamps and console.is_terminal:
        from launcher.cli.render.live_frames import on_terminal

        live = on_terminal(console, raw=first.raw)
        for _, request in logs:
            request.live = live


def note(request: LogRequest, console: Console, text: str) -> None:
    """Print a message to stderr while logs are shown."""
    if request.live is None:
        console.note(text)
    else:
        with request.live.above():
            console.note(text)


def show(logs: Logs, console: Console) -> None:
    """Write the logs to stdout until their end. All requests have the same options."""
    first = logs[0][1]
    if len(logs) == 1:
        found = read(*logs[0])
    elif first.follow:
        from launcher.schedulers.many import as_they_come

        found = as_they_come([read(app, request) for app, request in logs])
    else:
        found = _with_times(logs)
    try:
        for data in _for_terminal(found) if console.is_terminal and not first.raw else found:
            console.copy(data, flush=first.follow)
    finally:
        if first.live is not None:
            first.live.close()
    console.flush()


def _for_terminal(found: Iterable[bytes]) -> Iterator[bytes]:
    from launcher.cli.render.terminal_text import TerminalText

    text = TerminalText()
    yield from map(text.feed, found)
    yield text.finish()


def read(app: AppRecord, request: LogRequest) -> Iterator[bytes]:
    """Yield the text to show for one app, in pieces; for a held app, from its start on."""
    if request.is_held:
        return _from_start(app, request)
    if request.runs is not None:
        return _of_runs(app, request)
    merged = len(request.replicas) > 1 and request.tail is None and not request.follow
    by_time = (
        request.as_json or request.timestamps or (merged and allow_open_files(_FILES * len(request.replicas)))
    )
    if by_time:
        return _with_times([(app, request)])
    logs = scheduler_of(app).logs(app.app_id)
    logs.on_restart = request.on_restart
    part = LogPart(
        request.stream,
        request.since,
        request.until,
        None if request.regex and not request.follow else request.tail,
        follow=request.follow,
    )
    chunks = logs.chunks(request.replicas, part)
    if len(request.replicas) == 1 and not request.prefixes:
        return _single((data for _, _, data in chunks), request)
    return _several(app.app_id, chunks, request)


def _from_start(app: AppRecord, request: LogRequest) -> Iterator[bytes]:
    scheduler_of(app).wait_for_start(app.app_id)
    request.is_held = False
    yield from read(app, request)


def _of_runs(app: AppRecord, request: LogRequest) -> Iterator[bytes]:
    """Yield the output of one run of each replica, read by record: its last line may have no newline."""
    if len(request.replicas) > 1 or request.prefixes or request.timestamps or request.as_json:
        return _with_times([(app, request)])
    from launcher.schedulers.logs import tail

    chunks = (record.data for record in _records(app, request.replicas[0], request))
    if request.tail is not None and request.regex is None and not request.follow:
        return tail(chunks, request.tail)
    return _single(chunks, request)


def _records(app: AppRecord, where: tuple[str, int], request: LogRequest) -> Iterator[LogRecord]:
    """Yield the output of one replica with times: all of it, or that of one run."""
    stream, times = request.stream, (request.since, request.until)
    if request.runs is None:
        part = LogPart(stream, *times, follow=request.follow)
        return records(app, where, part, request.on_restart)
    from launcher.schedulers.restarts import until_restart, within

    run = request.runs[where]
    part = LogPart(stream, *within(run, *times), follow=request.follow and run[1] is None)
    return until_restart(records(app, where, part))


def _single(chunks: Iterable[bytes], request: LogRequest) -> Iterator[bytes]:
    """Yield the output of one replica, byte for byte; split into lines only for a pattern."""
    if request.regex is None:
        yield from chunks
        return
    from launcher.schedulers.logs import grep, tail

    found = grep(chunks, request.regex)
    yield from found if request.tail is None or request.follow else tail(found, request.tail)


def _several(app_id: str, chunks: Iterable[tuple[str, int, bytes]], request: LogRequest) -> Iterator[bytes]:
    """Yield the output of several replicas, in the order of their chunks."""
    from launcher.cli.render.log_lines import Shaper, last_lines

    shapers = {
        where: Shaper(request.prefix(number), regex=request.regex)
        for number, where in enumerate(request.replicas)
    }

    def pieces() -> Iterator[tuple[tuple[str, int], bytes]]:
        for role, k, data in chunks:
            yield (role, k), shapers[role, k].feed(0, "", data)
        for where, shaper in shapers.items():
            yield where, shaper.finish()

    if request.live is not None:
        for where, text in pieces():
            request.live.show((app_id, *where), text, shapers[where].frame())
        return

    if request.regex is None or request.tail is None or request.follow:
        yield from (text for _, text in pieces() if text)
        return
    last: dict[tuple[str, int], list[tuple[int, bytes]]] = {where: [] for where in request.replicas}
    for where, text in pieces():
        if text:
            last[where] = list(last_lines([*last[where], (0, text)], request.tail))
    for lines in last.values():
        yield from (line for _, line in lines)


def _with_times(logs: Logs) -> Iterator[bytes]:
    """Return logs by record: merged by time, or with the time of each line."""
    from launcher.cli.render.log_lines import last_lines, shaped

    sources: list[Iterator[tuple[int, bytes]]] = []
    follow = logs[0][1].follow
    for app, request in logs:
        for number, where in enumerate(request.replicas):
            found = _records(app, where, request)
            pieces = shaped(found, request.shaper(app, number))
            sources.append(pieces if request.tail is None or follow else last_lines(pieces, request.tail))
    if not allow_open_files(_FILES * len(sources)):
        if follow:
            raise LauncherError(
                f"cannot follow {len(sources)} replicas with times: too many open files",
                hint="raise `ulimit -Hn`, leave --timestamps out, or name fewer replicas",
            )
        yield from (text for source in sources for _, text in source)
    elif len(sources) == 1:
        yield from (text for _, text in sources[0])
    elif follow:
        from launcher.schedulers.many import as_they_come

        yield from (text for _, text in as_they_come(sources))
    else:
        from heapq import merge

        yield from (text for _, text in merge(*sources, key=lambda piece: piece[0]))
