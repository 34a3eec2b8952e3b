"""The connection to one cluster: each request is one round trip, to a login node or within this process."""

from __future__ import annotations

import io
import json
import os
import tarfile
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from launcher.errors import SchedulerError, StartError, StateError
from launcher.schedulers import packing
from launcher.schedulers.programs import files_of, modules, text_of, zipped
from launcher.schedulers.slurm import known
from launcher.schedulers.slurm.site.agent import site as agent
from launcher.unpacking import PieceReader

if TYPE_CHECKING:
    from launcher.schedulers.slurm.known import Place
    from launcher.schedulers.slurm.ssh import Ssh


Answer = dict[str, Any]

_BOTH_WAYS = (
    "run launcher on a machine of the cluster, or name its login node: the run option `host`, or"
    f" {known.HOST_VARIABLE}"
)


class Cluster:
    """A folder of apps and the Slurm that runs them, here or behind a login node, at `place`."""

    def __init__(self, place: Place) -> None:
        """Make no connection yet. Raises SchedulerError for a text that cannot be the name of a host."""
        self.place = place
        self.host, self.job_dir = place
        self._ssh: Ssh | None = None
        if self.host:
            from launcher.schedulers.slurm.ssh import Ssh

            self._ssh = Ssh(self.host)
        self._about: Answer | None = None

    def __str__(self) -> str:
        return f"the cluster behind {self.host}" if self.host else "the cluster of this machine"

    def call(self, *ops: Mapping[str, Any]) -> list[Answer]:
        """The answers to operations, in order, which may be errors. Raises SchedulerError if it is away."""
        answer = self._answer({"job_dir": self.job_dir, "ops": list(ops)})
        found = answer.get("ok")
        if not isinstance(found, list) or len(found) != len(ops):
            raise error_of(answer) or SchedulerError(f"{self} gave no answer that launcher understands")
        for op, each in zip(ops, found, strict=True):
            if op["op"] == "hello" and "error" not in each:
                self._about = each
            elif op["op"] == "put_program" and "error" not in each and self._about is not None:
                self._about["programs"] = [*self._about.get("programs", ()), op["name"]]
            elif each.get("error") == "no-program" and self._about is not None:
                self._about["programs"] = []  # another client has removed the program
        return found

    def answers(self, *ops: Mapping[str, Any]) -> list[Answer]:
        """As `call`; the first such request also asks for `about`."""
        greeting = [] if self._about is not None else [{"op": "hello"}]
        return self.call(*greeting, *ops)[len(greeting) :]

    def ask(self, op: str, **fields: Any) -> Answer:
        """The answer to one operation. Raises SchedulerError when it is an error."""
        (answer,) = self.call({"op": op, **fields})
        return checked(answer)

    @property
    def about(self) -> Answer:
        """Name, user, version and folders of the cluster; requested once."""
        if self._about is None:
            self._about = self.ask("hello")
        return self._about

    @property
    def programs(self) -> list[Answer]:
        """The operation that stores the program for nodes before an app needs it; none once it is stored."""
        name = program_name()
        if name in self.about.get("programs", ()):
            return []
        return [{"op": "put_program", "name": name, "data": b64encode(program()).decode()}]

    @property
    def root(self) -> str:
        """The absolute path of `job_dir` on the cluster."""
        return str(self.about["job_dir"])

    def put(self, app_id: str, archive: Iterable[bytes]) -> None:
        """Unpack the archive of a workspace into the folder of a reserved app. Raises SchedulerError."""
        if self._ssh is None:
            try:
                packing.unpack(io.BufferedReader(PieceReader(iter(archive))), self.job_dir, app_id)
            except (OSError, ValueError, tarfile.TarError) as error:
                raise SchedulerError(f"cannot unpack the workspace: {error}") from error
            return
        header = json.dumps({"job_dir": self.job_dir, "app_id": app_id}).encode() + b"\n"
        self._ssh.run(text_of("launcher.schedulers.packing"), chain([header], archive))

    def pack(self, output: str, only: str = "") -> Iterator[bytes]:
        """The files of an output folder, or one, as a tar archive, in pieces. Raises SchedulerError."""
        if self._ssh is None:
            folder = os.path.join(os.path.expanduser(self.job_dir), "outputs", output)
            try:
                yield from packing.packed(folder, only)
            except (OSError, ValueError) as error:
                raise SchedulerError(f"cannot read the output folder: {error}") from error
            return
        about = json.dumps({"job_dir": self.job_dir, "name": output, "only": only}).encode() + b"\n"
        yield from self._ssh.stream(text_of("launcher.schedulers.packing"), [about])

    def close(self) -> None:
        """Close the connection. May be called twice."""
        if self._ssh is not None:
            self._ssh.close()

    def _answer(self, request: dict[str, Any]) -> Answer:
        if self._ssh is None:
            if not known.has_commands():
                why = "there is no `sbatch` on this machine, and the job names no login node"
                raise SchedulerError(why, hint=_BOTH_WAYS)
            here: Answer = agent.answer(request)
            return here
        sent = [b"%d\n" % len(agent_modules()), agent_modules(), json.dumps(request).encode()]
        output = self._ssh.run(text_of(f"{_SITE}.bundle"), sent)
        try:
            answer = json.loads(output)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise SchedulerError(f"{self.host} gave no answer that launcher understands", hint="try again")
        return answer


def checked(answer: Answer) -> Answer:
    """Return the answer. Raises SchedulerError when it is an error."""
    error = error_of(answer)
    if error is not None:
        raise error
    return answer


def error_of(answer: Mapping[str, Any]) -> SchedulerError | StateError | None:
    """The error in an answer; None for any other answer."""
    kind = answer.get("error")
    if kind is None:
        return None
    message = str(answer.get("message") or kind)
    if kind == "refused":
        return StartError(f"Slurm refused the job: {message}")
    hint = {
        "no-slurm": _BOTH_WAYS,
        "unreachable": "`sinfo` shows whether Slurm's controller answers; then try again",
        "no-program": "try again",
        "full-disk": "make room below `job_dir`, or name another folder",
        "state": "name a folder that you can write, and that all nodes see: the run option `job_dir`",
        "live": "launcher cancel",
    }.get(str(kind))
    return SchedulerError(message, hint=hint)


# -- programs that travel --------------------------------------------------------------------------------

_SITE = "launcher.schedulers.slurm.site"
_EMPTY = ("launcher", "launcher.schedulers", "launcher.schedulers.slurm")
_OF_AGENT = (
    "launcher.filelock",
    "launcher.holding.events",
    "launcher.holding.journal",
    "launcher.schedulers.appfolder",
    "launcher.schedulers.contents",
    "launcher.schedulers.ended_process",
    f"{_SITE}.shared",
)
_OF_NODES = [
    f"launcher.schedulers.{name}" for name in ("appfolder", "contents", "ended_process", "loop", "probes")
]


@cache
def agent_modules() -> bytes:
    """The modules of the agent, as `bundle` reads them."""
    files = modules(f"{_SITE}.agent") | files_of(_OF_AGENT)
    texts = {path[: -len(".py")].replace("/", "."): text.decode() for path, text in files.items()}
    return zlib.compress(json.dumps(texts).encode())


@cache
def program_name() -> str:
    """The name of `program` in the folder `programs` of a cluster: a hash of its contents, and `.zip`."""
    from hashlib import sha256

    return f"{sha256(program()).hexdigest()[:16]}.zip"


@cache
def program() -> bytes:
    """The zip that runs on the nodes; the same bytes each time."""
    files = {f"{each.replace('.', '/')}/__init__.py": b"" for each in _EMPTY}
    of_site = modules(_SITE)
    files["__main__.py"] = of_site.pop(f"{_SITE.replace('.', '/')}/__main__.py")
    files |= files_of(["launcher.filelock", *_OF_NODES]) | modules("launcher.holding") | of_site
    return zipped({name: text for name, text in files.items() if not name.endswith("/bundle.py")})
