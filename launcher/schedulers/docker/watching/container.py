"""The watcher in a container of the engine, for clients: make it, start it, and hand apps over to it.

::

    launcher-watcher-<hash>     its container, for each image, version of launcher, and socket of the engine
        /launcher/watcher.zip   the modules of launcher that it needs
        /launcher/engine/       the folder of the engine's socket
        /launcher/home/         its LAUNCHER_HOME, an anonymous volume
        /launcher/turns/        the tables of turns, the volume `launcher-turns` of all watchers of the engine

Every container of an app that it watches names it in the label `launcher.watcher`. A client needs no record
of such an app: the record lies in the volume as long as the app is watched, see `watchers.py`.

When the container does not run, the next client that needs it starts it again; when it is gone, the client
makes another one, and hands over the app.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from functools import cache, partial
from hashlib import sha256
from posixpath import basename, dirname
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from launcher.errors import SchedulerError
from launcher.schedulers.docker import images, share
from launcher.schedulers.docker.client.engine import Engine, tar_entry
from launcher.schedulers.docker.client.errors import Conflict, EngineError, NameTaken, NotFound, explained
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.client.streams import ExecSocket, Report
from launcher.schedulers.docker.client.view import EngineView
from launcher.schedulers.docker.labels import (
    APP_ID,
    PART,
    TURNS_PART,
    WATCHER,
    WATCHER_IMAGE,
    WATCHER_PART,
    Labels,
)
from launcher.schedulers.docker.record import RecordLock
from launcher.schedulers.docker.watchers import HOME, NO_ENGINE, PREFIX, TURNS, TURNS_FOLDER, has_come_up
from launcher.schedulers.docker.watching.client import WatcherClient, answer_on
from launcher.schedulers.docker.watching.rendezvous import ANSWER_S
from launcher.schedulers.ended_process import last_line
from launcher.schedulers.programs import modules, zipped
from launcher.specs.attempt import AttemptState

if TYPE_CHECKING:
    from launcher.turns.line import Ask
    from launcher.turns.table import Place

_PROGRAM = "/launcher/watcher.zip"
_ENGINE = "/launcher/engine"
_PUMP = ("python3", "-I", _PROGRAM)
"""The command that connects a client to the watcher."""
_DEFAULT_SOCKET = "/var/run/docker.sock"
_UP_S = 60.0
_AGAIN_S = 0.1
_TRIES, _ENDING_S = 4, 15.0
"""The number of ever longer tries to hand over an app to a silent watcher. For a watcher that refuses an app:
the least number of tries, and seconds of further tries: a busy engine takes as long to end a watcher."""
_LEAVE_S = 5.0
_WANTED = "name an image with Python 3.10 or newer: the run option watcher_image"
_ELSEWHERE = "name the engine's socket in the address: unix://PATH or ssh://HOST/PATH in DOCKER_HOST"

_PACKAGES = (
    "launcher",
    "launcher.holding",
    "launcher.schedulers",
    "launcher.schedulers.docker",
    "launcher.schedulers.docker.client",
    "launcher.schedulers.docker.watching",
    "launcher.specs",
    "launcher.state",
    "launcher.turns",
    "launcher.workspace",
)
MAIN = b"""import sys
if sys.version_info < (3, 10):
    sys.exit("its Python is %d.%d, and the watcher needs 3.10 or newer" % tuple(sys.version_info[:2]))
if len(sys.argv) < 2:
    from launcher.schedulers.docker.watching.rendezvous import pump
    pump()
else:
    from launcher.schedulers.docker.watching.watcher import main_on_engine
    main_on_engine(sys.argv[1])
"""


@cache
def program() -> Mapping[str, bytes]:
    """The files of the zip that the container executes: path → text."""
    files = {"__main__.py": MAIN}
    for package in _PACKAGES:
        files |= modules(package)
    return files


def name_of(engine: EngineView, cfg: Mapping[str, Any]) -> str:
    """The name of the container that watches apps with these options."""
    facts = [image_of(cfg).encode(), socket_of(engine.host).encode(), *program().values()]
    return PREFIX + sha256(b"".join(sha256(each).digest() for each in facts)).hexdigest()[:16]


def image_of(cfg: Mapping[str, Any]) -> str:
    return str(cfg.get("watcher_image") or WATCHER_IMAGE)


def socket_of(host: str) -> str:
    """The path of the engine's socket on its own machine."""
    where = urlsplit(host)
    path = unquote(where.path) if where.scheme in ("unix", "ssh") else ""
    return path if path.strip("/") else _DEFAULT_SOCKET


# -- its client --------------------------------------------------------------------------------------------


class EngineWatcher(WatcherClient):
    """A watcher on the engine that watches an app for this process.

    It keeps the record of the app itself. So the order has the app's `labels`, and no descriptor comes with
    it; `go` has the event `declared`; and the watcher answers a message `wait` with the `state` of the app,
    once it has recorded that.

    Args:
        lock: the lock of the record here, which the caller keeps.
        labels: the labels of a container of the app, which name the watcher.
        turn: the app's request to the engine's machine, for a new app; None where it takes no turn.
        later: the app waits for others before it enters the line.
        policy: see `images.ensure_image`.

    Raises SchedulerError where the image cannot run it.
    """

    def __init__(
        self,
        engine: Engine,
        lock: RecordLock,
        labels: Mapping[str, str],
        *,
        turn: Ask | None = None,
        later: bool = False,
        resumed: bool = False,
        policy: str = images.MISSING,
        report: Report | None = None,
    ) -> None:
        order = {"app_id": labels[APP_ID], "labels": dict(labels), "attached": False, "resumed": resumed}
        if turn is not None:
            order |= {"ask": turn.to_dict(), "later": later}
        super().__init__(lock, order, None, labels[WATCHER])
        self.turn: dict[str, Any] = {}  # the place that the watcher has taken for `turn`, once it has the app
        self._withdrawn: list[ExecSocket] = []  # processes whose orders the watcher may read late
        image = image_of(Labels(labels).document.get("cfg") or {})
        self._find = partial(_connect, engine, labels[WATCHER], image, policy, report)
        self._reach()

    def _reach(self) -> None:
        self._control = self._stream = self._find()
        self._send(self._order)

    def confirm(self) -> None:
        silent, tries, since = 0, 0, time.monotonic()
        while silent < _TRIES and (tries < _TRIES or time.monotonic() - since < _ENDING_S):
            if self._lock is None:
                return
            time.sleep(_AGAIN_S if tries else 0.0)
            tries += 1
            try:
                answer = answer_on(self._stream, ANSWER_S * (silent + 1))
            except TimeoutError:
                self._withdraw()
                silent, tries, since = silent + 1, 0, time.monotonic()
            else:
                if answer is not None:
                    self.turn = answer.get("turn", {})
                    self._pass_on()
                    return
                self._stream.close()
            self._control = None  # where no watcher can be reached, the caller gives the app up
            self._reach()
        raise SchedulerError(
            f"the watcher {self._name} on the engine does not answer",
            hint=f"`docker logs {self._name}` may say why",
        )

    def _withdraw(self) -> None:
        """Withdraw the order, which the watcher may read late: else it would take the client for dead, and
        remove the containers that the client has created. The connection stays open: a closed one might lose
        the message."""
        self._send({"op": "forget"})
        self._withdrawn.append(self._stream)

    def take_turn(self, turn: Ask) -> Place:
        """The place that the watcher has taken for the app. The ask then has its holder."""
        self.confirm()
        place = share.taken_elsewhere(self.turn)
        turn.engine = place.ask.engine
        return place

    def go(self, declared: dict[str, Any] | None = None) -> None:
        self.confirm()
        self._send({"op": "go", "declared": declared})

    def hold(self, message: dict[str, Any]) -> AttemptState | None:
        self.confirm()
        for _ in range(_TRIES):  # an overloaded engine may lose an answer: the watcher gives it once more
            self._send({"op": "wait", **message})
            with suppress(TimeoutError):
                if (answer := answer_on(self._stream, _UP_S)) is not None:
                    accepted: AttemptState = answer["state"]
                    return accepted
        return None

    def close(self, timeout_s: float = 0.0) -> bool:
        """See `WatcherClient.close`. It waits a moment, so that the last message is not lost."""
        try:
            return super().close(max(timeout_s, _LEAVE_S))
        finally:
            for each in self._withdrawn:
                each.close()


def tell(engine: Engine, name: str, message: Mapping[str, Any]) -> dict[str, Any] | None:
    """Send the watcher in this container a message; returns its answer, None from a dead watcher."""
    with suppress(Conflict, NotFound, OSError), closing(engine.converse(name, _PUMP)) as stream:
        stream.sendall(json.dumps(message).encode() + b"\n")
        return answer_on(stream, ANSWER_S)
    return None


def _connect(engine: Engine, name: str, image: str, policy: str, report: Report | None) -> ExecSocket:
    """A connection to the watcher in this container. Makes or starts the container if it does not run."""
    began = time.monotonic()
    unstarted, since = "", began  # a container that a client has made and not started yet, seen since then
    while True:
        found = engine.inspect(name)
        try:
            if found is not None and found.live:
                return engine.converse(name, _PUMP)
            if found is None:
                _make(engine, name, image, policy, report)
                continue
            if found.ended:
                _start_again(engine, found, image)
                continue
            if found.id != unstarted:
                unstarted, since = found.id, time.monotonic()
            elif time.monotonic() - since > _UP_S / 2:  # its client was killed before it had started it
                engine.remove(found.id)
        except (Conflict, NotFound) as error:  # it ends or starts at this moment
            if time.monotonic() - began > _UP_S:
                text = f"the watcher {name} on the engine cannot be reached: {error.cause}"
                raise SchedulerError(text, hint=f"`docker logs {name}` may say why") from error
        time.sleep(_AGAIN_S)


def _make(engine: Engine, name: str, image: str, policy: str, report: Report | None) -> None:
    """Make and start the container, unless another client is faster."""
    folder = dirname(socket_of(engine.host))
    try:
        images.ensure_image(engine, image, policy, report)
        made = engine.create(name, _body(name, image, folder, basename(socket_of(engine.host))))
    except NameTaken:
        return
    except EngineError as error:
        raise explained(error, f"the engine cannot make a watcher of {image}: {error.cause}") from error
    try:
        engine.put_archive(made, "/", tar_entry(_PROGRAM, zipped(program()), 0o600))
        engine.start(made)
    except EngineError as error:
        if isinstance(error, NotFound) and engine.inspect(made) is None:
            return  # another client took it for a leftover and removed it: the engine is slow
        engine.remove(made, force=True)
        text = f"the watcher cannot run in the image {image}: {error.cause}"
        raise SchedulerError(text, hint=_WANTED) from error


def _start_again(engine: Engine, found: Container, image: str) -> None:
    """Start a watcher that was killed. One that has never come up is removed: SchedulerError says why."""
    if has_come_up(engine, found):
        engine.start(found.id)
        return
    with closing(engine.log_frames(found.id)) as frames:
        why = last_line(b"".join(text for _, text in frames)) or "it ended at once"
    engine.remove(found.id)
    if why.startswith(NO_ENGINE):
        text = f"the watcher on the engine does not find it at {socket_of(engine.host)} of its machine"
        raise SchedulerError(text, hint=_ELSEWHERE)
    raise SchedulerError(f"the watcher cannot run in the image {image}: {why}", hint=_WANTED)


def _body(name: str, image: str, folder: str, socket: str) -> dict[str, Any]:
    """The container: root of the engine's machine, with its network, so that probes reach all replicas."""
    labels = {PART: WATCHER_PART, WATCHER: name}
    home = {"Type": "volume", "Target": HOME, "VolumeOptions": {"Labels": labels}}
    turns: dict[str, Any] = {"Type": "volume", "Source": TURNS, "Target": TURNS_FOLDER}
    turns["VolumeOptions"] = {"Labels": {PART: TURNS_PART}}
    # The folder, not the socket: a restarted engine makes another socket. Without the mounts below it, which
    # may be the engine's own: it would mount them once more for each look into the container.
    engine: dict[str, Any] = {"Type": "bind", "Source": folder, "Target": _ENGINE, "ReadOnly": True}
    engine["BindOptions"] = {"NonRecursive": True}
    return {
        "Image": image,
        "Entrypoint": [*_PUMP, name],
        "Cmd": [],
        "Env": [
            f"DOCKER_HOST=unix://{_ENGINE}/{socket}",
            f"LAUNCHER_HOME={HOME}",
            f"LAUNCHER_SLOTS={TURNS_FOLDER}/slots",
            f"XDG_RUNTIME_DIR={TURNS_FOLDER}",
        ],
        "Hostname": name,
        "User": "0:0",
        "WorkingDir": "/",
        "StopSignal": "SIGKILL",
        "Healthcheck": {"Test": ["NONE"]},
        "Labels": labels,
        "HostConfig": {
            "Mounts": [home, turns, engine],
            "NetworkMode": "host",
            "UsernsMode": "host",
            "SecurityOpt": ["label=disable"],
            "LogConfig": {"Type": "json-file", "Config": {"max-size": "1m", "max-file": "2"}},
        },
    }
