"""Read the logs of apps as they were asked for, in the largest pieces that this allows."""

from __future__ import annotations

from launcher.errors import LauncherError
from launcher.inventory.installed import scheduler_of
from launcher.inventory.logs import records
from launcher.limits import allow_open_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from launcher.cli.console import Console
    from launcher.cli.render.live_frames import LiveFrames
    from launcher.state.records import AppRecord

    Logs = list[tuple[AppRecord, "Asked"]]

_FILES = 2  # that the reader of one replica's log holds open


class Asked:
    """What of which replicas is to be shown, and how.

    Attributes:
        since, until: seconds since the epoch.
        prefixes: one per replica, or none.
        live: the display that shows progress bars, with all lines; then `read` has none left to give.
    """

    __slots__ = (
        "follow",
        "live",
        "prefixes",
        "regex",
        "replicas",
        "since",
        "stream",
        "tail",
        "timestamps",
        "until",
    )

    def __init__(self, replicas: list[tuple[str, int]], stream: str = "combined") -> None:
        self.replicas = replicas
        self.stream = stream
        self.since: float | None = None
        self.until: float | None = None
        self.tail: int | None = None
        self.follow = False
        self.regex: str | None = None
        self.timestamps = False
        self.prefixes: list[bytes] = []
        self.live: LiveFrames | None = None

    def prefix(self, number: int) -> bytes:
        return self.prefixes[number] if self.prefixes else b""


def display(logs: Logs, console: Console) -> None:
    """Choose the display: several replicas that are followed at a terminal show their progress bars there."""
    first = logs[0][1]
    if first.follow and first.prefixes and not first.timestamps and console.is_terminal:
        from launcher.cli.render.live_frames import on_terminal

        live = on_terminal(console)
        for _, asked in logs:
            asked.live = live


def note(asked: Asked, console: Console, text: str) -> None:
    """A message to stderr while logs are shown."""
    if asked.live is None:
        console.note(text)
    else:
        with asked.live.above():
            console.note(text)


def show(logs: Logs, console: Console) -> None:
    """Read to the end, and write what there is to stdout. All apps are asked for in the same way."""
    first = logs[0][1]
    try:
        for data in read(*logs[0]) if len(logs) == 1 else _of_apps(logs):
            console.copy(data, flush=first.follow)
    finally:
        if first.live is not None:
            first.live.close()
    console.flush()


def _of_apps(logs: Logs) -> Iterator[bytes]:
    """In order of time, or as they come."""
    if logs[0][1].follow:
        return _as_they_come([read(app, asked) for app, asked in logs])
    return _with_times(logs)


def read(app: AppRecord, asked: Asked) -> Iterator[bytes]:
    """The text to show, in pieces."""
    merged = len(asked.replicas) > 1 and asked.tail is None and not asked.follow
    by_time = asked.timestamps or (merged and allow_open_files(_FILES * len(asked.replicas)))
    if by_time:
        return _with_times([(app, asked)])
    chunks = scheduler_of(app).log_chunks(
        app.app_id,
        asked.replicas,
        stream=asked.stream,
        since=asked.since,
        until=asked.until,
        tail=None if asked.regex and not asked.follow else asked.tail,
        follow=asked.follow,
    )
    if len(asked.replicas) == 1 and not asked.prefixes:
        return _single((data for _, _, data in chunks), asked)
    return _several(app.app_id, chunks, asked)


def _single(chunks: Iterable[bytes], asked: Asked) -> Iterator[bytes]:
    """One replica, byte for byte; its lines are looked at only for a pattern."""
    if asked.regex is None:
        yield from chunks
        return
    from launcher.schedulers.logs import grep, tail

    found = grep(chunks, asked.regex)
    yield from found if asked.tail is None or asked.follow else tail(found, asked.tail)


def _several(app_id: str, chunks: Iterable[tuple[str, int, bytes]], asked: Asked) -> Iterator[bytes]:
    """Several replicas in the order in which their chunks come."""
    from launcher.cli.render.log_lines import Shaper, last_lines

    shapers = {
        where: Shaper(asked.prefix(number), regex=asked.regex) for number, where in enumerate(asked.replicas)
    }

    def pieces() -> Iterator[tuple[tuple[str, int], bytes]]:
        for role, k, data in chunks:
            yield (role, k), shapers[role, k].feed(0, "", data)
        for where, shaper in shapers.items():
            yield where, shaper.finish()

    if asked.live is not None:
        for where, text in pieces():
            asked.live.show((app_id, *where), text, shapers[where].frame())
        return

    if asked.regex is None or asked.tail is None or asked.follow:
        yield from (text for _, text in pieces() if text)
        return
    kept: dict[tuple[str, int], list[tuple[int, bytes]]] = {where: [] for where in asked.replicas}
    for where, text in pieces():
        if text:
            kept[where] = list(last_lines([*kept[where], (0, text)], asked.tail))
    for lines in kept.values():
        yield from (line for _, line in lines)


def _with_times(logs: Logs) -> Iterator[bytes]:
    """By record: in order of time, or with the times in front of the lines."""
    from launcher.cli.render.log_lines import Shaper, last_lines, shaped

    sources: list[Iterator[tuple[int, bytes]]] = []
    follow = logs[0][1].follow
    for app, asked in logs:
        for number, where in enumerate(asked.replicas):
            found = records(app, where, asked.stream, asked.since, asked.until, follow=follow)
            shaper = Shaper(asked.prefix(number), regex=asked.regex, timestamps=asked.timestamps)
            pieces = shaped(found, shaper)
            sources.append(pieces if asked.tail is None or follow else last_lines(pieces, asked.tail))
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
        yield from _as_they_come([(text for _, text in source) for source in sources])
    else:
        from heapq import merge

        yield from (text for _, text in merge(*sources, key=lambda piece: piece[0]))


def _as_they_come(sources: Sequence[Iterable[bytes]]) -> Iterator[bytes]:
    """One thread for each source, asleep in the kernel until a replica writes."""
    import threading
    from queue import SimpleQueue

    lines: SimpleQueue[bytes | BaseException | None] = SimpleQueue()

    def drain(source: Iterable[bytes]) -> None:
        try:
            for text in source:
                lines.put(text)
        except BaseException as error:
            lines.put(error)
        lines.put(None)

    for source in sources:
        threading.Thread(target=drain, args=(source,), daemon=True).start()
    left = len(sources)
    while left:
        item = lines.get()
        if isinstance(item, BaseException):
            raise item
        if item is None:
            left -= 1
        else:
            yield item
