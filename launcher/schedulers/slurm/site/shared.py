"""Values that clients, the agent and the programs of nodes share: owners of jobs, times, rows of replicas.

Python >= 3.6.
"""

import os
import re
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

from launcher.schedulers.appfolder import AppFolder
from launcher.schedulers.ended_process import last_line_of

if TYPE_CHECKING:
    from launcher.holding.replica import Replica
    from launcher.holding.state import AppState

Json = Dict[str, Any]

RUN_AGAIN = "Slurm's controller forgot that its job ran; it is not run twice"
"""The message of an app that is lost since Slurm has queued its job again."""

NO_ROOM = 28
"""The exit code of a job that could not record its start, for want of room in the app's folder."""

_SCRIPT = "script-"


def script_of(generation: str) -> str:
    """The second name of an app's script, with which its jobs are submitted."""
    return f"{_SCRIPT}{generation}.sh"


OUTPUT = "slurm.out"
"""The file in an app's folder with the output of its job: of Slurm, of `setup` and of the conductor."""


def last_output(folder: str) -> str:
    """The last line of the output of an app's job, without the path of its script; "" for none."""
    return re.sub(r"\A\S*/slurm_script: ", "", last_line_of(os.path.join(folder, OUTPUT)))


ARRAY_SCRIPT, TASKS = "array.sh", "tasks"
"""The files in the folder of an array: its script, and a line `APP_ID GENERATION` for each task, in order."""


def array_name(array: str) -> str:
    """The name of an array's job."""
    return "launcher-" + array


Owner = Tuple[str, str]
"""The id of an app, and the generation of its folder, which differs for each folder of that name."""
NONE: Owner = ("", "")


class Owners:
    """Finds the apps of the jobs that Slurm lists. Reads the tasks of an array once."""

    def __init__(self) -> None:
        self._tasks: Dict[str, List[Owner]] = {}

    def of(self, jobs: Sequence[str], command: str) -> List[Owner]:
        """The apps whose script these jobs (`123_7` for a task) run, ("", "") for none."""
        folder, script = os.path.split(command)
        if script.startswith(_SCRIPT) and script.endswith(".sh"):
            return [(os.path.basename(folder), script[len(_SCRIPT) : -len(".sh")])] * len(jobs)
        if script != ARRAY_SCRIPT:
            return [NONE] * len(jobs)
        if folder not in self._tasks:
            self._tasks[folder] = read_tasks(folder)
        tasks = dict(enumerate(self._tasks[folder]))
        numbers = (job.partition("_")[2] for job in jobs)
        return [tasks.get(int(each), NONE) if each.isdigit() else NONE for each in numbers]


def read_tasks(folder: str) -> List[Owner]:
    """The apps of an array, in the order of its tasks; none where it was removed."""
    text = AppFolder(folder).text(TASKS) or ""
    lines = (line.partition(" ") for line in text.splitlines())
    return [(app_id, generation) for app_id, _, generation in lines]


def seconds_of(text: str) -> Optional[float]:
    """Convert a duration of Slurm, `01:02.345`, `03:01:02` or `1-03:01:02`, to s; None for other text."""
    days, _, clock = text.rpartition("-")
    total = 0.0
    try:
        for part in clock.split(":"):
            total = 60 * total + float(part)
        return total + 86400 * int(days or 0)
    except ValueError:
        return None


def timed_out(seconds: float) -> str:
    """The message of an app that has reached this limit of Slurm, 0 for an unknown one: `… after 90 min`."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if seconds >= 1 and int(seconds) % size == 0:
            return f"timed out after {int(seconds) // size} {unit}"
    return "timed out"


@lru_cache(maxsize=4096)  # the jobs of an array have the same times
def parse_time(text: str) -> Optional[float]:
    """Convert local time, `2026-11-23T00:55:42`, to epoch seconds; None for N/A, Unknown and the like."""
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None


# -- rows of replicas --------------------------------------------------------------------------------------


def row(app: "AppState", replica: "Replica") -> Json:
    """A replica as readers show it; the outcome of an ended app has such a row for each replica."""
    state, message = app.shown(replica)
    ended_at = replica.ended_at
    if app.has_ended and replica.started_at is not None:
        ended_at = ended_at or app.ended_at or None
    return {
        "role": replica.role.name,
        "k": replica.k,
        "state": state,
        "message": message,
        "code": replica.code,
        "host": replica.host,
        "restarts": replica.restarts,
        "started_at": replica.started_at,
        "ended_at": ended_at,
        "error_file": "",
        "use": replica.use and replica.use.to_json(),
    }


def recorded_exit(found: Any, replica: "Replica") -> Optional[Json]:
    """The end of a replica's present run, as a fact, from the record `found` of its wrapper; or None."""
    if not isinstance(found, dict) or found.get("state") != "ended":
        return None
    if not replica.is_active or found.get("restarts", 0) < replica.restarts:
        return None
    event = {"e": "exit", "role": replica.role.name, "k": replica.k, "t": int(found["ended_at"] * 1e9)}
    names = ("code", "signal", "stopped", "late", "why", "lost", "said", "host", "use")
    event.update({name: found[name] for name in names if found.get(name) not in (None, "", False, [])})
    event.setdefault("code", found.get("code"))
    return event
