"""The job directory of a user with the folders of apps, and the answer to a request of operations on it.

Loads only the modules of the requested operations.
"""

import base64
import json
import os
import re
import sys
import time
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from itertools import groupby
from operator import itemgetter
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, TypeVar, Union

from launcher.holding.journal import is_full, read_events
from launcher.schedulers.appfolder import AppFolder, json_object
from launcher.schedulers.slurm.site.agent.slurm import OpError, Row, Slurm
from launcher.schedulers.slurm.site.shared import Json, Owner

T = TypeVar("T")

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@-]{0,199}\Z")
"""The form of app ids and names of folders and files: no path, no option, no hidden file."""


DECIDED = frozenset({"started", "cancel", "outcome"})
"""The files that a submitted app lacks until its replicas start, or a client decides otherwise."""


class Folder(AppFolder):
    """An open app directory. A directory that replaces it under its name is not touched through it."""

    def __init__(self, path: str) -> None:
        """Open the directory. Raises FileNotFoundError."""
        super().__init__(path)
        super().__enter__()

    def __enter__(self) -> "Folder":
        return self

    @property
    def identity(self) -> Owner:
        """The app's id, and the generation of this folder: the owner of its jobs."""
        return (self.app_id, self.text("id") or "")

    def json(self, name: str) -> Optional[Json]:
        """The JSON object in a file; None where there is none. Raises OpError state for a damaged one."""
        data = self.read(name)  # read once: another client may be linking the file
        found = None if data is None else json_object(data)
        if found is None and data is not None:
            raise OpError("state", f"{os.path.join(self.path, name)} is damaged")
        return found

    def events(self) -> List[Json]:
        """The events of the app's record."""
        return read_events(self.read("events") or b"")

    def owner(self) -> Tuple[Optional[Json], str, str]:
        """The present owner, the name of its file, and the name of its successor's file."""
        owner: Optional[Json] = None
        at, name = "", "owner"
        while True:
            found = self.json(name)
            if found is None:
                return owner, at, name
            owner, at, name = found, name, "owner." + checked(str(found.get("nonce")))

    def quiet_s(self) -> float:
        """Seconds since a client has written into it; clocks of other machines have no part in this."""
        return max(0.0, min((self.age_s(name) for name in self.names()), default=0.0))

    # -- the state of the app --------------------------------------------------------------------------------

    def state(self) -> str:
        """The state of the app, read from its directory alone."""
        outcome, started = self.json("outcome"), self.json("started")
        if outcome is not None:
            return str(outcome.get("state"))
        if started is not None and not is_removed(started):
            return "running" if "job" in started else "cancelled" if "cancelled" in started else "skipped"
        names = self.names()
        return "queued" if "submitted" in names else "created" if "created" in names else "reserved"

    def job(self) -> str:
        """The recorded job of the app, `123_7` for a task of an array; "" for none."""
        return (self.text("job") or "").strip() or str((self.json("created") or {}).get("job") or "")

    def reserved(self, owner: Optional[Json], state: str = "", **detail: Any) -> OpError:
        """The error of an app that another client has."""
        state = state or self.state()
        return OpError("reserved", f"{self.app_id} is {state}", state=state, owner=owner, **detail)

    def gone(self) -> OpError:
        """The error of an app whose job has left Slurm before it was released."""
        why = "it was cancelled, or Slurm's controller lost it"
        return OpError("state", f"job {self.job()} of {self.app_id} has gone: {why}")

    def seal(self) -> None:
        """Give the folder of a submitted app the time of its attempt, which the file of a decision changes.

        A decision that was taken before is noticed here. After a failure the app is read in full each time.
        """
        try:
            created_at = int((self.read_json("attempt.json") or {}).get("created_at") or 0)
            if created_at:
                os.utime(self.path, (created_at, created_at))
                if not DECIDED.isdisjoint(self.names()):
                    os.utime(self.path)
        except OSError:
            pass

    def end_unstarted(self, state: str, message: str) -> None:
        """Link the outcome of an app without a started replica, unless it has one."""
        made: Json = {"state": state, "message": message, "exit_code": None, "restarts": 0, "replicas": []}
        self.link("outcome", json.dumps(dict(made, started_at=None, ended_at=time.time())))
        self.unlink("secrets")


def answered(act: Callable[[], T], where: str) -> Union[T, Json]:
    """The answer of an operation, or its error."""
    try:
        return act()
    except OpError as error:
        return {"error": error.kind, "message": str(error), "detail": error.detail}
    except OSError as error:
        kind = "full-disk" if is_full(error) else "state"
        message = f"{os.fsdecode(error.filename or where)}: {error.strerror or error}"
        return {"error": kind, "message": message, "detail": {}}


def checked(name: Any) -> str:
    """Return the name. Raises OpError state for a name that may lead out of its directory."""
    if not isinstance(name, str) or not NAME.match(name):
        raise OpError("state", f"{name!r} is not a valid name of an app, a folder or a file")
    return name


def replace(path: str, text: str) -> None:
    """Replace a cache as a whole; a failed write leaves the old one."""
    folder, name = os.path.split(path)
    try:
        AppFolder(folder).write(name, text)
    except OSError:
        pass


def is_sealed(path: str, created_at: float) -> bool:
    """Whether the folder belongs to the attempt, and no decision about it was taken since `seal`."""
    try:
        return os.stat(path).st_mtime == int(created_at)
    except OSError:
        return False


def is_removed(started: Json) -> bool:
    """Whether `started` is the link of an owner that removes the app."""
    return not started.keys() & {"job", "cancelled", "withdrawn"}


SECOND_LOOK_S = 2.0  # after a restart squeue may list nothing for a moment


class Site:
    """The job directory of the user on this cluster, and Slurm."""

    def __init__(self, job_dir: str) -> None:
        self.job_dir = os.path.abspath(os.path.expanduser(os.fsdecode(job_dir.encode("utf-8"))))
        self.apps = os.path.join(self.job_dir, "apps")
        self.outputs = os.path.join(self.job_dir, "outputs")
        self.programs = os.path.join(self.job_dir, "programs")
        self.arrays = os.path.join(self.job_dir, "arrays")
        self.slurm = Slurm()
        self._look: Optional[Dict[Owner, List[Row]]] = None
        self._looks = -1

    def path(self, app_id: Any) -> str:
        return os.path.join(self.apps, checked(app_id))

    def find(self, app_id: Any) -> Optional[Folder]:
        """Open the folder of an app; None for an unknown app."""
        try:
            return Folder(self.path(app_id))
        except FileNotFoundError:
            return None

    def open(self, app_id: Any) -> Folder:
        """Open the folder of an app. Raises OpError unknown-app."""
        folder = self.find(app_id)
        if folder is None:
            raise OpError("unknown-app", f"no app {app_id} in {self.apps}")
        return folder

    def answer(self, op: Json, act: Callable[[Folder], Json]) -> Json:
        """The answer to an operation on an app: what `act` returns for its open folder, or an error."""

        def opened() -> Json:
            with self.open(op["app_id"]) as folder:
                return act(folder)

        return answered(opened, self.job_dir)

    def open_again(self, identity: Owner) -> Optional[Folder]:
        """The folder that was open before; None when it is gone, even if another one has its name."""
        folder = self.find(identity[0])
        if folder is None or folder.identity == identity:
            return folder
        folder.__exit__()
        return None

    def app_ids(self) -> List[str]:
        try:
            return sorted(name for name in os.listdir(self.apps) if NAME.match(name))
        except FileNotFoundError:
            return []

    def hidden(self) -> List[str]:
        """The paths of directories that are not yet, or no longer, an app or an array."""
        folders = filter(os.path.isdir, (self.apps, self.arrays))
        found = [os.path.join(folder, name) for folder in folders for name in os.listdir(folder)]
        return sorted(path for path in found if os.path.basename(path).startswith("."))

    def rows(self, owner: Owner) -> List[Row]:
        """The jobs of an app, without jobs of another app with its name, or with the reused id of its job."""
        if self._look is None:
            return self.slurm.rows(owner)
        if not self._looks:
            self._look_again()
        return self._look.get(owner, [])

    @contextmanager
    def one_look(self, count: int) -> Iterator[None]:
        """Ask Slurm once for the jobs of `count` apps, when the first app needs them; an app alone asks for
        its own."""
        self._look, self._looks = ({} if count > 1 else None), 0
        try:
            yield
        finally:
            self._look = None

    def _look_again(self) -> None:
        self._look, self._looks = {}, self._looks + 1
        for row in self.slurm.rows():
            self._look.setdefault(row.owner, []).append(row)

    def of_array(self, array: str) -> List[str]:
        """The live tasks of an array, by the stored look."""
        rows = (row for rows in (self._look or {}).values() for row in rows if not row.is_over)
        return [row.job for row in rows if row.job.partition("_")[0] == array]

    def live_job(self, folder: Folder) -> Optional[Row]:
        """The recorded job of an unstarted app; None when Slurm no longer has it."""
        job = folder.job()
        for is_again in (False, True):
            if is_again and (self._look is None or self._looks < 2):
                time.sleep(SECOND_LOOK_S)
            if is_again and self._look is not None and self._looks < 2:  # all apps share the second look, too
                self._look_again()
            for row in self.rows(folder.identity):
                if row.job == job and not row.is_over:
                    return row
        return None

    def program(self, name: Any) -> str:
        """Note that an app uses this program, which `sweep` then leaves. Raises OpError no-program."""
        try:
            os.utime(os.path.join(self.programs, checked(name)))
        except FileNotFoundError:
            raise OpError("no-program", f"there is no {name} in {self.programs}") from None
        return str(name)

    def scripts(self, row: Row) -> bool:
        """Whether a job runs the script of an app in this job directory."""
        return os.path.dirname(os.path.dirname(row.command)) in (self.apps, self.arrays)


def need_of(site: Site, app_id: str) -> Tuple[str, str]:
    """(State, id of the Slurm job) of a needed app: the state is "" before its end, the id "" after it."""
    try:
        with site.open(app_id) as folder:
            outcome, started = folder.json("outcome"), folder.json("started")
            if outcome is not None:
                return str(outcome["state"]), ""
            if started is not None and "job" not in started:
                return "cancelled" if "cancelled" in started else "skipped", ""
            job = (started or {}).get("job") or folder.job()
            if not job:
                raise OpError("state", f"{app_id} has no job yet")
            return "", str(job)
    except OpError as error:
        if error.kind != "unknown-app":
            raise
        return "removed", ""


def put_program(site: Site, op: Json) -> Json:
    """Store a program for nodes: once for all apps of a version."""
    os.makedirs(site.programs, 0o700, exist_ok=True)
    AppFolder(site.programs).write(checked(op["name"]), base64.b64decode(op["data"]))
    return {}


def hello(site: Site, op: Json) -> Json:
    """The description of the cluster; Slurm is asked once a day."""
    path, key = os.path.join(site.job_dir, "cluster"), os.environ.get("SLURM_CONF", "")
    found = AppFolder(site.job_dir).read_json("cluster") or {}
    cached = found.get("found") or {}
    is_fresh = 0 <= time.time() - found.get("at", 0.0) < 86400
    if not (is_fresh and found.get("conf") == key and "max_array" in cached):
        cached = site.slurm.hello()
        os.makedirs(site.job_dir, 0o700, exist_ok=True)
        replace(path, json.dumps({"conf": key, "at": time.time(), "found": cached}))
    programs = os.listdir(site.programs) if os.path.isdir(site.programs) else []
    return dict(cached, user=site.slurm.user, job_dir=site.job_dir, programs=programs)


# -- requests ------------------------------------------------------------------------------------------------


MODULES: Dict[str, str] = {
    op: module
    for module, ops in (
        ("site", "hello put_program"),
        ("submit", "reserve create start check"),
        ("arrays", "copy_workspace create_array"),
        ("observe", "observe"),
        ("read", "read tail events"),
        ("removal", "abort remove remove_logs sweep outputs make_output hash_output remove_output"),
        ("ends", "cancel withdraw end wait release"),
    )
    for op in ops.split()
}
"""Operation → the module with the function of its name."""
TOGETHER = frozenset({"start", "abort", "cancel", "withdraw"})
"""The operations whose functions take the requests for all apps at once."""


def answer(request: Json) -> Json:
    """Do the operations of a request in order; later operations run also after a failed one.

    For adjacent operations of one kind, each on an app, Slurm is asked once for all jobs.
    """
    site = Site(request["job_dir"])
    alike = (list(ops) for _, ops in groupby(request["ops"], itemgetter("op")))
    return {"ok": [answer for ops in alike for answer in _answers(site, ops)]}


def _answers(site: Site, ops: Sequence[Json]) -> List[Json]:
    """The answers to operations of one kind."""
    name = ops[0]["op"]
    act = getattr(import_module(f"launcher.schedulers.slurm.site.agent.{MODULES[name]}"), name)
    if name in TOGETHER:
        found: Any = answered(partial(act, site, ops), site.job_dir)
        return found if isinstance(found, list) else [found] * len(ops)
    with site.one_look(len(ops)):
        return [answered(partial(act, site, op), site.job_dir) for op in ops]


def main() -> None:
    """Answer one request: a JSON object in, one out."""
    request = json.loads(sys.stdin.buffer.read().decode("utf-8"))
    sys.stdout.write(json.dumps(answer(request)) + "\n")
