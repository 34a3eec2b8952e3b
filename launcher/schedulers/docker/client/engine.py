"""`Engine`, the client for changes at a Docker engine, and `connect`, which finds the engine."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from operator import itemgetter
from threading import Lock
from typing import IO, Any, Literal, TypeVar, overload

from launcher.errors import SchedulerError
from launcher.schedulers.docker.client.configuration import endpoint
from launcher.schedulers.docker.client.errors import Conflict, EngineError, EngineRefused, NotFound
from launcher.schedulers.docker.client.objects import Labelled, labelled
from launcher.schedulers.docker.client.streams import (
    OPTIONS,
    ExecSocket,
    ItemStream,
    Report,
    built,
    objects,
    transfer,
)
from launcher.schedulers.docker.client.transport import UPGRADE
from launcher.schedulers.docker.client.view import EngineView, quoted
from launcher.schedulers.docker.client.wire import Wire

T = TypeVar("T")

WORK_S = 300.0  # for changes: a busy engine takes its time, and after a timeout the result is unknown
_AGAIN_S = 0.1
_WHOLE_S = 1.0  # the engine reports the age of a volume in whole seconds
_AS_IT_WAS = 304
_TRIES = 3  # another client may remove a network again while it is being repaired
_REPAIR_LOCK = Lock()  # held during a repair: the replicas of an app start at once


class Engine(EngineView):
    """An `EngineView` that can also change containers, networks, volumes and images."""

    # Containers

    def create(self, name: str, config: Mapping[str, Any]) -> str:
        """Create a container and return its id. `config` is the body of POST /containers/create.

        Raises NameTaken, ImageNotFound.
        """
        params, doing = {"name": name}, f"create {name}"
        return self._make("/containers/create", doing, _id, params=params, json=config)

    def start(self, container: str) -> None:
        """Start a container, for the first time or again. A running one stays as it is."""
        self._post(container, "start")

    def stop(self, container: str, grace_s: float) -> bool:
        """Ask a container's process to end, and kill it after `grace_s`; returns when it has ended.

        The engine counts whole seconds: the grace is rounded up. Returns False if the container does not run.
        """
        answer = self._post(
            container, "stop", timeout=grace_s + WORK_S, params={"t": str(math.ceil(grace_s))}
        )
        return bool(answer.status_code != _AS_IT_WAS)

    def rename(self, container: str, name: str) -> None:
        self._post(container, "rename", params={"name": name})

    def remove(self, container: str, *, force: bool = False, again: int = 5) -> None:
        """Remove a container and its anonymous volumes; `force` kills it first. It may be gone already."""
        path, params = f"/containers/{quoted(container)}", {"force": "1" if force else "0", "v": "1"}
        try:
            self._do("DELETE", path, f"remove {container}", params=params)
        except NotFound:
            return
        except Conflict as error:
            if "already in progress" not in str(error):
                raise
            with suppress(NotFound):  # wait until the removal by another client is done
                self._post(container, "wait", params={"condition": "removed"})
        except EngineError as error:
            if not again or "directory not empty" not in str(error):
                raise
            time.sleep(_AGAIN_S)  # the engine wrote the log, or mounted the filesystem for another client
            self.remove(container, force=force, again=again - 1)

    def put_archive(self, container: str, path: str, tar: bytes) -> None:
        """Unpack a tar archive at the folder `path` of a container, started or not."""
        where = f"/containers/{quoted(container)}/archive"
        self._do("PUT", where, f"write to {path} in {container}", params={"path": path}, data=tar)

    def execute(self, container: str, argv: Sequence[str]) -> str:
        """Start a command in a running container, with the environment, user and directory of its process.

        Returns the id that `executed` takes; its output goes nowhere. Raises EngineError when there is no
        such executable, Conflict when the container does not run.
        """
        doing = f"run {argv[0]} in {container}"
        path, body = f"/containers/{quoted(container)}/exec", {"Cmd": list(argv)}
        made = self._make(path, doing, _id, json=body)
        self._do("POST", f"/exec/{quoted(made)}/start", doing, json={"Detach": True})
        return made

    def converse(self, container: str, argv: Sequence[str]) -> ExecSocket:
        """Start a command in a running container; returns its input and output. Raises as `execute`."""
        doing, streams = f"run {argv[0]} in {container}", ("AttachStdin", "AttachStdout", "AttachStderr")
        command = {"Cmd": list(argv), **dict.fromkeys(streams, True)}
        made = self._make(f"/containers/{quoted(container)}/exec", doing, _id, json=command)
        path, body = f"/exec/{quoted(made)}/start", {"Detach": False}
        return ExecSocket(*self._wire.send("POST", path, doing, json=body, **UPGRADE).upgraded())

    def restart_always(self, container: str) -> None:
        """Have the engine start a container again whenever it ends, and when the engine itself starts."""
        self._post(container, "update", json={"RestartPolicy": {"Name": "always"}})

    def _post(self, container: str, verb: str, **options: Any) -> Any:
        return self._do("POST", f"/containers/{quoted(container)}/{verb}", f"{verb} {container}", **options)

    def _do(self, method: str, path: str, doing: str, **options: Any) -> Any:
        return self._wire.send(method, path, doing, **{"timeout": WORK_S, **options})

    def _make(self, path: str, doing: str, read: Callable[[Any], T], **options: Any) -> T:
        return self._wire.json(path, doing, read, method="POST", timeout=WORK_S, **options)

    # Networks and volumes

    def ensure_network(self, name: str, labels: Mapping[str, str]) -> None:
        """Ensure exactly one bridge network of this name; create it if there is none.

        An engine before 25 may create two when two clients ask at the same moment, and then refuses to start
        containers that name it. Each client removes all duplicates but the oldest; none is in use yet.
        """
        if not (found := self._networks(name)):
            body = {"Name": name, "Driver": "bridge", "CheckDuplicate": True, "Labels": dict(labels)}
            with suppress(Conflict):
                self._do("POST", "/networks/create", f"create network {name}", json=body)
            found = self._networks(name)
        for duplicate in found[1:]:
            with suppress(Conflict):  # a network in use is not a duplicate
                self.remove_network(duplicate)

    def _networks(self, name: str) -> list[str]:
        """The ids of all networks of this name, oldest first."""
        params = {"filters": json.dumps({"name": [name]})}  # matches parts of names, too

        def ids(found: list[dict[str, Any]]) -> list[str]:
            return [
                each["Id"] for each in sorted(found, key=itemgetter("Created", "Id")) if each["Name"] == name
            ]

        return self._wire.json("/networks", "list networks", ids, params=params)

    def connect(self, network: str, container: str) -> None:
        """Connect a container to a network, by names or ids; replaces one to a network of that name."""
        path, doing = f"/networks/{quoted(network)}/connect", f"connect {container} to network {network}"
        self._do("POST", path, doing, json={"Container": container})

    def start_on(self, network: str, labels: Mapping[str, str], container: str) -> None:
        """As `start`, and repair the container's network of this name. `labels`: the labels of a new network.

        Another client may have removed the network: it has no users while no container runs. A container
        that was never started joins the new network of that name by itself; a started one must be connected.
        Or two clients have just created the network at once, and for a moment there are two.
        """
        for _ in range(_TRIES):
            try:
                self.start(container)
            except EngineError as error:
                if not self._repair(network, labels, container, error):
                    raise
            else:
                return
        self.start(container)

    def _repair(self, network: str, labels: Mapping[str, str], container: str, error: EngineError) -> bool:
        """Repair the network of a container; False when its start has failed for another reason."""
        ambiguous = f"network {network} is ambiguous" in str(error)
        if not (ambiguous or isinstance(error, NotFound)):
            return False
        seen = self.inspect(container)
        if seen is None or seen.network != network:
            return False
        with _REPAIR_LOCK:
            self.ensure_network(network, labels)
        if seen.was_started and not ambiguous:
            with suppress(EngineRefused):  # removed again, or for another cause: the next start reports it
                self.connect(network, container)
        return True

    def remove_network(self, network: str) -> None:
        """Remove a network by name or id; it may be gone already. Raises Conflict when containers use it."""
        self._remove(f"/networks/{quoted(network)}", f"remove network {network}")

    def create_volume(self, name: str, labels: Mapping[str, str], *, since: float = math.inf) -> bool:
        """Create a volume. An existing one stays as it is: returns False when it has other labels.

        Args:
            since: the earliest time of the caller's first try, epoch seconds. A stopping engine makes a
                volume without its labels, and answers that it failed: a younger volume like that is replaced.
        """
        made = self._create_volume(name, labels)
        if not made.labels and (made.created_at or 0.0) >= since - _WHOLE_S:
            self.remove_volume(name)
            made = self._create_volume(name, labels)
        return dict(made.labels) == dict(labels)

    def _create_volume(self, name: str, labels: Mapping[str, str]) -> Labelled:
        body, doing = {"Name": name, "Labels": dict(labels)}, f"create volume {name}"
        return self._make("/volumes/create", doing, labelled, json=body)

    def remove_volume(self, name: str) -> None:
        """Remove a volume; it may be gone already. Raises Conflict when containers use it."""
        self._remove(f"/volumes/{quoted(name)}", f"remove volume {name}")

    def _remove(self, path: str, doing: str) -> None:
        with suppress(NotFound):
            self._do("DELETE", path, doing)

    # Images

    def tag(self, image: str, name: str) -> None:
        """Give an image another name, `repository:tag`."""
        repository, tag = split_tag(name)
        path, params = f"/images/{quoted(image, safe='/:@')}/tag", {"repo": repository, "tag": tag}
        self._do("POST", path, f"tag image {image} as {name}", params=params)

    def remove_image(self, name: str) -> None:
        """Remove an image by name or id; it may be gone already. Raises Conflict when a container uses it."""
        self._remove(f"/images/{quoted(name, safe='/:@')}", f"remove image {name}")

    def pull(self, image: str, report: Report | None = None) -> None:
        """Pull an image from its registry, with the credentials of `docker login`.

        `report` gets `pulling` with `done` and `total` bytes, then `pulled`. Raises ImageNotFound when the
        registry has no such image, or denies access to it.
        """
        repository, tag = split_tag(image)
        self._transfer("/images/create", "pull", image, {"fromImage": repository, "tag": tag}, report)

    def push(self, name: str, report: Report | None = None) -> None:
        """Push an image to the registry of its name. `report` gets `pushing`, then `pushed`."""
        repository, tag = split_tag(name)
        self._transfer(f"/images/{quoted(repository, safe='/:')}/push", "push", name, {"tag": tag}, report)

    def _transfer(
        self, path: str, verb: str, image: str, params: Mapping[str, str], report: Report | None
    ) -> None:
        say, doing = report or no_report, f"{verb} {image}"
        with self._messages(path, doing, login=image, params=params) as messages:
            transfer(messages, f"{verb}ing", image, doing, say)
        say(f"{verb}ed", {"image": image})

    def build(
        self,
        context: IO[bytes] | Iterable[bytes],
        *,
        tag: str,
        dockerfile: str = "Dockerfile",
        buildargs: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        report: Report | None = None,
        nameless: bool = False,
    ) -> str:
        """Build an image from a tar archive, sent as it is made, and return the image's id.

        Missing base images are pulled. `report` gets `building` with each `line`, then `built`. With
        `nameless` the image does not get the name `tag` yet.

        Raises BuildFailed. No container of the build is left behind in any case.
        """
        params = {"dockerfile": dockerfile, "rm": "1", "forcerm": "1", **({} if nameless else {"t": tag})}
        params |= {"buildargs": json.dumps(dict(buildargs or {})), "labels": json.dumps(dict(labels or {}))}
        say, headers = report or no_report, {"Content-Type": "application/x-tar"}
        options: dict[str, Any] = {"params": params, "headers": headers, "data": _archive_pieces(context)}
        with self._messages("/build", f"build {tag}", login="", **options) as messages:
            made = built(messages, tag, say)
        say("built", {"image": tag, "id": made})
        return made

    @contextmanager
    def _messages(self, path: str, doing: str, **options: Any) -> Iterator[Iterator[dict[str, Any]]]:
        """The JSON messages of a long operation. The engine cancels it when the caller leaves early."""
        options["headers"] = {**options.get("headers", {}), **OPTIONS["headers"]}
        answer = self._wire.send("POST", path, doing, **{**OPTIONS, **options})
        with ItemStream(self.host, answer, objects) as messages:
            yield messages


def _id(made: Mapping[str, Any]) -> str:
    return str(made["Id"])


def no_report(_kind: str, _facts: Mapping[str, Any]) -> None: ...


def _archive_pieces(context: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces of an archive. An unreadable file must not look like a broken connection: SchedulerError."""
    pieces = iter(lambda: context.read(1 << 18), b"") if hasattr(context, "read") else context
    try:
        yield from pieces
    except OSError as error:
        raise SchedulerError(f"cannot read the workspace: {error}") from error


def tar_entry(path: str, data: bytes | None, mode: int) -> bytes:
    """A tar archive of one file, to be unpacked at `/`; of one empty folder when `data` is None."""
    import io
    import tarfile

    out, entry = io.BytesIO(), tarfile.TarInfo(path.lstrip("/"))
    entry.type = tarfile.DIRTYPE if data is None else tarfile.REGTYPE
    entry.size, entry.mode = len(data or b""), mode
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.addfile(entry, io.BytesIO(data or b""))
    return out.getvalue()


def split_tag(name: str) -> tuple[str, str]:
    """`host:5000/web:1` → (`host:5000/web`, `1`); without a tag `latest`; of `web@sha256:…` the digest."""
    repository, at, digest = name.partition("@")
    if at:
        return repository, digest
    repository, colon, tag = name.rpartition(":")
    return (repository, tag) if colon and "/" not in tag else (name, "latest")


@overload
def connect(*, readonly: Literal[False] = ..., environ: Mapping[str, str] | None = ...) -> Engine: ...
@overload
def connect(*, readonly: bool, environ: Mapping[str, str] | None = ...) -> EngineView: ...
def connect(*, readonly: bool = False, environ: Mapping[str, str] | None = None) -> EngineView:
    """The engine that DOCKER_HOST, DOCKER_CONTEXT or the docker configuration names, else the default one.

    Sends nothing yet. Raises EngineUnreachable for an invalid address, EngineError when the transport needs a
    package that is not installed.
    """
    environ = os.environ if environ is None else environ
    where, version = endpoint(environ), environ.get("DOCKER_API_VERSION")
    wire = Wire(where, version, readonly=readonly)
    return EngineView(wire) if readonly else Engine(wire)


def has_docker() -> bool:
    """Whether the engine of `connect` answers."""
    try:
        with closing(connect(readonly=True)) as view:
            return bool(view.engine_id())
    except SchedulerError:
        return False


def writable(view: EngineView) -> Engine:
    """The engine, for changes. Raises SchedulerError for one that was connected readonly."""
    if not isinstance(view, Engine):
        raise SchedulerError("this scheduler was made readonly: it changes nothing at the engine")
    return view
