"""The record of an app in its folder: `events`, and `outcome` at its end. Python >= 3.6."""

import copy
import json
import os
import time
from typing import Optional

from launcher.holding import use
from launcher.holding.app import App
from launcher.holding.journal import JournalWriter, read_events
from launcher.schedulers.appfolder import AppFolder
from launcher.schedulers.slurm.site.node import now_ns, read_json, say
from launcher.schedulers.slurm.site.shared import Json, row

RECORD_LIMIT_S = 600.0
MOST_ERROR_TEXT = 8 << 20  # characters of all error files in the outcome
MOST_WARNINGS = 10
SPARE_BYTES = 1024  # space kept for the outcome, for each replica


class Record:
    """Appends the events of an app, and links its outcome before `ended`: a linked outcome wins over events.

    Once it `is_hurried`, Slurm kills the conductor soon, and failed writes are not repeated.

    Args:
        folders: role → its folder, where wrappers record the ends of replicas. None when this job runs
            nothing of the app: then it writes no events, as another conductor may.
    """

    def __init__(self, folder: str, app: App, folders: "Optional[dict[str, str]]" = None) -> None:
        self._folder = folder
        self._place = AppFolder(folder).__enter__()  # open as long as the conductor runs
        self._app = app
        self._folders = folders
        self._journal = JournalWriter(folder + "/events", size=_lines(folder).rfind(b"\n") + 1)
        self._outcome = ""
        self._is_linked = False
        self._ended_at = 0.0
        self._problem = ""
        self.is_hurried = False

    def keep_room(self) -> None:
        """Keep space on the disk for the outcome."""
        with open(self._folder + "/spare", "wb") as file:
            file.write(os.urandom(SPARE_BYTES * (1 + len(self._app.replicas))))

    def append(self, event: Json) -> None:
        event.setdefault("t", now_ns())
        self._say(event)
        if event["e"] == "ended":
            self._outcome, self._ended_at = self._text(event), time.monotonic()
        if self._folders is not None:
            self._journal.hold_back(event)

    def is_written(self) -> bool:
        """Write the remaining events; returns whether all are written. After an end, the outcome suffices."""
        if not self._outcome:
            return self.is_in_place() and self._write()
        if self.is_in_place():
            self._is_linked = self._is_linked or self._link()
            if self._is_linked:
                self._write()
        return self._is_linked or self.is_hurried or time.monotonic() > self._ended_at + RECORD_LIMIT_S

    def is_in_place(self) -> bool:
        """Whether the folder is there: it was neither removed nor replaced by that of a later app."""
        return self._place.is_in_place()

    def close(self) -> None:
        """Remove the files that are not needed after the end."""
        for name in ("spare", "secrets"):
            self._place.unlink(name)

    def _write(self) -> bool:
        is_written = self._journal.is_written()
        if not is_written and self._journal.error is not None:
            self._report("events", self._journal.error)
        return is_written

    def _link(self) -> bool:
        while True:
            try:
                self._place.link("outcome", self._outcome)
                return True
            except OSError as error:
                try:
                    os.unlink(self._folder + "/spare")  # frees the space that was kept for the outcome
                except OSError:
                    self._report("the outcome cannot be recorded", error)
                    return False

    def _report(self, what: str, error: OSError) -> None:
        problem = f"{what}: {error.strerror}"
        if problem != self._problem:
            say(problem)
        self._problem = problem

    def _say(self, event: Json) -> None:
        if event["e"] == "restart":
            role = self._app.roles[event["role"]]
            replica = role.replicas[event["k"]]
            pause = " in {:g} s".format(event["delay_s"]) if event.get("delay_s") else ""
            number = "restart {} of {}".format(event["n"], role.retries)
            say(f"{replica.name} {replica.cause}; {number}{pause}")
        elif event["e"] in ("stopping", "warning") and event.get("message"):
            say(event["message"])

    def _text(self, event: Json) -> str:
        app = copy.copy(self._app)
        app.take(event)
        made = {"state": app.state, "message": app.message, "exit_code": app.code}  # type: Json
        made.update(started_at=app.started_at, ended_at=app.ended_at, restarts=app.num_restarts)
        if app.output_digest:
            made["output_digest"] = app.output_digest
        rows = [row(app, each) for each in app.replicas]
        # When Slurm ends the job, it kills this program soon: then the record of the conductor is enough.
        if not self.is_hurried:
            self._add_errors(rows, self._folders or {})
        made.update(warnings=app.warnings[:MOST_WARNINGS], used=use.to_json(app.used), replicas=rows)
        return json.dumps(made)

    def _add_errors(self, rows: "list[Json]", folders: "dict[str, str]") -> None:
        """Add the contents of replicas' error files, the oldest first."""
        left = MOST_ERROR_TEXT
        for each in sorted(rows, key=lambda each: each["ended_at"] or 0):
            if each["started_at"] is not None:
                path = "{}/replicas/{}/{}.json".format(self._folder, folders[each["role"]], each["k"])
                found = read_json(path)
                if found is not None and found.get("restarts") == each["restarts"]:
                    each["error_file"] = (found.get("error_file") or "")[:left]
                    left -= len(each["error_file"])


def events_of(folder: str) -> "list[Json]":
    """The events of an app."""
    return read_events(_lines(folder))


def _lines(folder: str) -> bytes:
    return AppFolder(folder).read("events") or b""
