"""`EngineView`, the client for reading from a Docker engine; `engine.py` has the methods for changes.

It may be used from several threads at once.
"""

from __future__ import annotations

import json
import time
from contextlib import closing
from hashlib import sha256

from launcher.schedulers.docker.client.errors import EngineRefused, EngineUnreachable, NotFound
from launcher.schedulers.docker.client.objects import (
    epoch,
    exec_of,
    from_inspect,
    from_list,
    image,
    labelled,
    path_stat,
    usage_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeVar

    from launcher.schedulers.docker.client.objects import Container, Exec, Image, Labelled, PathStat
    from launcher.schedulers.docker.client.streams import Event, EventStream, LogStream
    from launcher.schedulers.docker.client.transport import Response
    from launcher.schedulers.docker.client.wire import Wire
    from launcher.schedulers.logs import LogPart

    T = TypeVar("T")
    R = TypeVar("R")
    Size = tuple[float, int]

WORKERS = 4  # with more threads, the engine is the limit: measured for create and start
_ANEW_S = 20.0
INSPECTIONS = 16  # at a time: a slow engine answers many requests at once as fast as one
_MiB = 1024 * 1024
_FAILED = 500
_LINKS = 8  # each response has followed a chain of links to its end; more is a loop


class EngineView:
    """Reads from one engine. Every method raises EngineError when the request fails."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._about: tuple[str, Size | None] | None = None

    @property
    def host(self) -> str:
        """The address of the engine, such as `unix:///var/run/docker.sock`."""
        return self._wire.host

    def engine_id(self) -> str:
        """The id that the engine chose at its first start, and a hash of its data folder.

        Two engines of one machine can have the same id: older ones take it from a key below /etc/docker.
        """
        return self._known()[0]

    def size(self) -> Size | None:
        """The cores of the engine's machine, and its memory in MiB; None for an engine that tells neither."""
        return self._known()[1]

    def _known(self) -> tuple[str, Size | None]:
        self._about = self._about or self._ask()
        return self._about

    def _ask(self) -> tuple[str, Size | None]:
        def about(answer: dict[str, Any]) -> tuple[str, Size | None]:
            folder = sha256(str(answer.get("DockerRootDir", "")).encode()).hexdigest()[:8]
            cores, memory = answer.get("NCPU"), answer.get("MemTotal")
            size = (float(cores), int(memory) // _MiB) if cores and memory else None
            return f"{answer.get('ID') or self.host}/{folder}", size

        return self._wire.json("/info", "ask the engine for its id and size", about)

    def check_same(self) -> None:
        """Raise EngineUnreachable where another engine answers at the address now."""
        found = self._ask()
        self._about = self._about or found
        if found[0] != self._about[0]:
            raise EngineUnreachable(f"another Docker engine answers at {self.host}")

    def started_at(self) -> float | None:
        """The time of the engine's last start without a running container, by its clock; None where unknown.

        At such a start the engine makes its default network anew, and keeps it as long as containers run.
        """
        doing = "ask the engine since when it runs"  # an engine may be configured to make no such network
        return self._wire.find("/networks/bridge", doing, lambda network: epoch(network.get("Created")))

    def keeps_containers(self) -> bool:
        """Whether the engine is configured to let containers run on while it is away (live-restore)."""
        doing = "ask the engine whether its containers outlive it"
        return self._wire.json("/info", doing, lambda about: about.get("LiveRestoreEnabled") is True)

    def answer_anew(self) -> None:
        """Raise EngineUnreachable unless the engine answers on a new connection: a stopping one does not."""
        self._wire.send("GET", "/_ping", "ask the engine whether it goes on", fresh=True, timeout=_ANEW_S)

    def close(self) -> None:
        """Close the connections."""
        self._wire.close()

    # Containers

    def containers(self, *labels: str) -> list[Container]:
        """Every container with all of these labels (`key` or `key=value`), in any state, newest first."""

        def each(entries: list[dict[str, Any]]) -> list[Container]:
            # A container that ended during its removal may be listed, nameless, until the engine restarts.
            return [from_list(entry) for entry in entries if entry["Names"]]

        params = {"all": "1", **_having(labels)}
        return self._wire.json("/containers/json", "list containers", each, params=params)

    def inspect(self, container: str) -> Container | None:
        """One container in full, by id or name. None when there is none."""
        path, doing = f"/containers/{quoted(container)}/json", f"inspect {container}"
        return self._wire.find(path, doing, from_inspect)

    def environment(self, container: str) -> dict[str, str]:
        """The variables of a container, the values of secrets included: for comparing, never for showing."""
        path, doing = f"/containers/{quoted(container)}/json", f"inspect {container}"

        def variables(data: dict[str, Any]) -> dict[str, str]:
            listed = (data.get("Config") or {}).get("Env") or ()
            return {name: value for name, _, value in (each.partition("=") for each in listed)}

        return self._wire.json(path, doing, variables)

    def inspect_all(self, ids: Iterable[str]) -> list[Container]:
        """Inspect each of these containers, several at a time; removed ones are left out."""
        return [found for found in run_parallel(self.inspect, ids, INSPECTIONS) if found is not None]

    def inspect_within(self, containers: Iterable[Container], within_s: float) -> list[Container]:
        """As `inspect_all`, with a time limit: containers that it does not reach stay as listed."""
        deadline = time.monotonic() + within_s

        def inspect(listed: Container) -> Container | None:
            return self.inspect(listed.id) if time.monotonic() < deadline else listed

        return [found for found in run_parallel(inspect, containers, INSPECTIONS) if found is not None]

    def usage(self, container: str) -> tuple[float, float, int] | None:
        """A sample of a run, see `usage_of`; None when there is no such container."""
        path, doing = f"/containers/{quoted(container)}/stats", f"sample the use of {container}"
        return self._wire.find(path, doing, usage_of, params={"stream": "false", "one-shot": "true"})

    def events(self, *labels: str, since: float | None = None) -> EventStream:
        """Events of containers with these labels from now on, or from `since` on (epoch seconds).

        The stream is subscribed when this returns, so that a later read of the containers misses no change.
        It may begin with events of the second before: read a container's state, do not derive it from them.
        """
        from launcher.schedulers.docker.client.streams import LIVE, EventStream

        filters = {"type": ["container"], "label": list(labels)}
        now = self._second()  # a clock ahead of the engine's must not hide the next events
        since = now if since is None else min(since, now)
        params = {"since": f"{since:.9f}", "filters": json.dumps(filters)}
        return EventStream(self.host, self._wire.send("GET", "/events", "watch", params=params, **LIVE))

    def past_events(self, label: str, since: float) -> list[Event]:
        """The events of containers with this label, from `since` (epoch seconds) until now.

        An engine keeps only the latest events.
        """
        from launcher.schedulers.docker.client.streams import event, objects

        filters = {"type": ["container"], "label": [label]}
        params = {"since": f"{since:.9f}", "until": f"{max(time.time(), self._second()):.9f}"}
        params["filters"] = json.dumps(filters)
        answer = self._wire.send("GET", "/events", "list past events", params=params)
        return [event(each) for each in objects([answer.content])]

    def _second(self) -> float:
        """The current second of the engine's clock.

        The engine answers a request for events before it subscribes the client; only with a start in the
        past does it send the events in between.
        """
        from email.utils import parsedate_to_datetime

        date = self._wire.send("HEAD", "/_ping", "ask the engine for its time").headers.get("Date")
        try:
            return parsedate_to_datetime(date or "").timestamp()
        except (ValueError, TypeError):
            return time.time() - 1

    def log_frames(
        self,
        container: str,
        part: LogPart | None = None,
        *,
        since: int | None = None,
        timestamps: bool = False,
        follow: bool = False,
        tail: int | None = None,
    ) -> LogStream:
        """The log of a container without a terminal: (stream, payload) as the engine sends it.

        Args:
            part: selects by stream and time alone; None for all.
            since: nanoseconds since the epoch, inclusive; replaces that of `part`.
            timestamps: each payload begins with an RFC 3339 time and a space; so does every piece of 16 KiB
                of a long line, of which only the last ends in a newline.
            follow: go on until the container ends (or until `close` of the stream).
            tail: only the last lines, of both streams together.

        Raises NotFound when there is no such container, EngineError when its log driver stores nothing.
        """
        from launcher.schedulers.docker.client.streams import LIVE, ItemStream, frames
        from launcher.schedulers.logs import STDERR, STDOUT, LogPart

        part = part or LogPart()
        params: dict[str, Any] = {"stdout": int(part.stream != STDERR), "stderr": int(part.stream != STDOUT)}
        params |= {"follow": int(follow), "timestamps": int(timestamps)}
        params["tail"] = "all" if tail is None else tail
        for key, at in (("since", since or part.first_ns), ("until", part.last_ns)):
            if at:
                params[key] = f"{at // 10**9}.{at % 10**9:09}"
        path, doing = f"/containers/{quoted(container)}/logs", f"read the log of {container}"
        return ItemStream(self.host, self._wire.send("GET", path, doing, params=params, **LIVE), frames)

    # Files in containers, started or not

    def path_stat(self, container: str, path: str) -> PathStat | None:
        """The path in the container, links followed; None when there is no such path or container."""
        for _ in range(_LINKS):
            doing = f"look at {path} in {container}"
            answer = self._path("HEAD", container, path, doing)
            if answer is None:
                return None
            with self._wire.decoding(doing):
                found = path_stat(str(answer.headers.get("X-Docker-Container-Path-Stat")), path)
            if not found.link:
                return found
            path = found.link
        return None

    def read_file(self, container: str, path: str, most: int) -> bytes | None:
        """The first `most` bytes of a file in the container, links followed; None when there is none."""
        import tarfile

        from launcher.schedulers.docker.client.streams import OPTIONS

        found = self.path_stat(container, path)
        if found is None or found.is_dir:
            return None
        doing = f"read {path} in {container}"
        answer = self._path("GET", container, found.path, doing, **OPTIONS)
        if answer is None:  # removed between the two requests
            return None
        with (
            self._wire.translating_errors(doing),
            closing(answer),
            tarfile.open(fileobj=answer.raw, mode="r|") as tar,
        ):
            member = tar.next()
            file = member and tar.extractfile(member)
            return file.read(most) if file else None

    def _path(self, method: str, container: str, path: str, doing: str, **options: Any) -> Response | None:
        """The response about a path in a container; None when there is no such path or container.

        An engine that is removing the container fails with status 500.
        """
        where = f"/containers/{quoted(container)}/archive"
        try:
            answer: Response = self._wire.send(method, where, doing, params={"path": path}, **options)
            return answer
        except NotFound:
            return None
        except EngineRefused as error:
            found = self.inspect(container) if error.status == _FAILED else None
            is_there = found is not None and found.state not in ("removing", "dead")
            if error.status != _FAILED or is_there:
                raise
            return None

    def archive(self, container: str, path: str) -> Iterator[bytes]:
        """A folder of the container, started or not, as a tar archive in pieces, below the folder's name."""
        from launcher.schedulers.docker.client.streams import OPTIONS, ItemStream

        where, doing = f"/containers/{quoted(container)}/archive", f"read {path} in {container}"
        answer = self._wire.send("GET", where, doing, params={"path": path}, **OPTIONS)
        with ItemStream(self.host, answer, iter) as pieces:
            yield from pieces

    # Commands in containers

    def executed(self, exec_id: str) -> Exec | None:
        """The state of a command started in a container; None when the engine no longer knows it."""
        return self._wire.find(f"/exec/{quoted(exec_id)}/json", f"inspect command {exec_id}", exec_of)

    # Images, networks, volumes

    def image(self, name: str) -> Image | None:
        """The configuration of an image, by name or id. None when the engine has no such image."""
        return self._wire.find(f"/images/{quoted(name, safe='/:@')}/json", f"inspect image {name}", image)

    def images(self, *labels: str) -> list[Labelled]:
        return self._labelled("/images/json", labels)

    def networks(self, *labels: str) -> list[Labelled]:
        return self._labelled("/networks", labels)

    def volume(self, name: str) -> Labelled | None:
        """The volume of that name; None when there is none."""
        return self._wire.find(f"/volumes/{quoted(name)}", f"inspect volume {name}", labelled)

    def volumes(self, *labels: str) -> list[Labelled]:
        return self._labelled("/volumes", labels)

    def _labelled(self, path: str, labels: tuple[str, ...]) -> list[Labelled]:
        def each(found: Any) -> list[Labelled]:
            return [labelled(entry) for entry in (found["Volumes"] or () if path == "/volumes" else found)]

        return self._wire.json(path, f"list {path.split('/')[1]}", each, params=_having(labels))


def _having(labels: Iterable[str]) -> dict[str, str]:
    return {"filters": json.dumps({"label": list(labels)})} if labels else {}


def quoted(text: str, safe: str = "") -> str:
    """A name quoted as a part of a path: no name may lead to another path of the API."""
    from urllib.parse import quote

    return quote(text, safe=safe)


def run_parallel(work: Callable[[T], R], items: Iterable[T], workers: int = WORKERS) -> list[R]:
    """Run `work` for each item, at most `workers` at a time. Returns the results in the order of the items.

    Every item is tried. The first error, in the order of the items, is raised after all have ended.
    """
    todo = list(items)
    if len(todo) <= 1:
        return [work(item) for item in todo]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(workers, len(todo)), thread_name_prefix="docker") as pool:
        done = [pool.submit(work, item) for item in todo]
    return [one.result() for one in done]
