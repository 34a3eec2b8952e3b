"""An app directory, and the state of an app by its files."""

import errno
import json
import os
import re
import time
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar, Union

from launcher.holding.journal import read_events
from launcher.schedulers.appfolder import AppFolder, json_object

T = TypeVar("T")
Json = Dict[str, Any]
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@-]{0,199}\Z")
"""Of app ids, role folders, output folders and files: no path, no option, no hidden file."""
FULL = (errno.ENOSPC, errno.EDQUOT)


DECIDED = frozenset({"started", "cancel", "outcome"})
"""The files that a submitted app lacks until its replicas start, or a client decides otherwise."""


class OpError(Exception):
    """kind: reserved, refused, no-slurm, no-program, unreachable, full-disk, state, unknown-app, live."""

    def __init__(self, kind: str, message: str, **detail: Any) -> None:
        super().__init__(message)
        self.kind = kind
        self.detail = detail


class Folder(AppFolder):
    """An open app directory. A directory that replaces it under its name is not touched through it."""

    def __init__(self, path: str) -> None:
        """Raises FileNotFoundError."""
        super().__init__(path)
        super().__enter__()

    def __enter__(self) -> "Folder":
        return self

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

    # -- the state of the app --------------------------------------------------------------------------------

    def state(self) -> str:
        """The state of the app, by its directory alone."""
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
        kind = "full-disk" if error.errno in FULL else "state"
        message = f"{os.fsdecode(error.filename or where)}: {error.strerror or error}"
        return {"error": kind, "message": message, "detail": {}}


def checked(name: Any) -> str:
    """Return the name. Raises OpError state for a name that may lead out of its directory."""
    if not isinstance(name, str) or not NAME.match(name):
        raise OpError("state", f"{name!r} is no name of an app, a folder or a file")
    return name


def replace(path: str, text: str) -> None:
    """Replace a cache as a whole; a failed write leaves the old one."""
    folder, name = os.path.split(path)
    try:
        AppFolder(folder).write(name, text)
    except OSError:
        pass


def is_sealed(path: str, created_at: float) -> bool:
    """Whether the folder is that of the attempt, and no decision about it has been taken since `seal`."""
    try:
        return os.stat(path).st_mtime == int(created_at)
    except OSError:
        return False


def is_removed(started: Json) -> bool:
    """Whether `started` is the link of an owner that removes the app."""
    return not started.keys() & {"job", "cancelled", "withdrawn"}
