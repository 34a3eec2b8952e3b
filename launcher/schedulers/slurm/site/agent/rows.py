"""The text of Slurm's commands: jobs of squeue with the apps that they run, and rows of accounting."""

import os
import time
from functools import lru_cache
from typing import Dict, List, NamedTuple, Optional, Tuple

from launcher.schedulers.appfolder import AppFolder
from launcher.schedulers.slurm.site.agent.folder import Json

OVER = {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"}
OVER |= {"PREEMPTED", "REVOKED", "TIMEOUT"}


_SCRIPT = "script-"


def script_of(generation: str) -> str:
    """The second name of an app's script, which its jobs are submitted by."""
    return f"{_SCRIPT}{generation}.sh"


ARRAY_SCRIPT, TASKS = "array.sh", "tasks"
"""The files in the folder of an array: its script, and a line `APP_ID GENERATION` for each task, in order."""


def array_name(array: str) -> str:
    """The name of an array's job."""
    return "launcher-" + array


Owner = Tuple[str, str]
"""The id of an app, and the generation of its folder: another folder of that name has another one."""


class Owners:
    """The apps whose jobs Slurm lists. Reads the tasks of an array once."""

    def __init__(self) -> None:
        self._tasks: Dict[str, List[Owner]] = {}

    def of(self, job: str, command: str) -> Owner:
        """The app whose script it is, ("", "") for none: users may give the job another name.

        job: as squeue writes it, `123_7` for a task of an array. By the name of the script, since later
        versions of Slurm show it without its arguments.
        """
        folder, script = os.path.split(command)
        if script.startswith(_SCRIPT) and script.endswith(".sh"):
            return os.path.basename(folder), script[len(_SCRIPT) : -len(".sh")]
        task = job.partition("_")[2]
        if script != ARRAY_SCRIPT or not task.isdigit():
            return "", ""
        if folder not in self._tasks:
            self._tasks[folder] = read_tasks(folder)
        tasks = self._tasks[folder]
        return tasks[int(task)] if int(task) < len(tasks) else ("", "")


def read_tasks(folder: str) -> List[Owner]:
    """The apps of an array, in the order of its tasks; none where it was removed."""
    text = AppFolder(folder).read(TASKS) or b""
    lines = (line.partition(" ") for line in text.decode("utf-8", "replace").splitlines())
    return [(app_id, generation) for app_id, _, generation in lines]


class Row(NamedTuple):
    """A line of squeue. Times in epoch seconds, None where Slurm knows none.

    command: the script. nodes: a list as Slurm writes it.
    """

    owner: Owner
    job: str
    state: str
    held: bool
    submitted_at: Optional[float]
    start_at: Optional[float]
    end_at: Optional[float]
    dependency: str
    reason: str
    nodes: str
    command: str

    @property
    def is_over(self) -> bool:
        return self.state in OVER

    @property
    def app_id(self) -> str:
        """The app that it runs, "" for none."""
        return self.owner[0]


FORMAT = "\x1e" + "\x1f".join(["%i", "%T", "%Q", "%V", "%S", "%e", "%E", "%r", "%N", "%o"])


def parse_rows(text: str, owners: Owners, wanted: Optional[Owner] = None) -> List[Row]:
    """The rows of `squeue -o FORMAT`; text that is none, such as that of a plugin, is left out.

    wanted: the only app whose jobs are asked for. Times take long to read, so others are left out first.
    """
    rows = []
    for line in text.split("\x1e"):
        parts = line.rstrip("\n").split("\x1f")
        if len(parts) != 10:
            continue
        owner = owners.of(parts[0], parts[-1])
        if wanted is None or owner == wanted:
            job, state, priority = parts[:3]
            submitted, start, end = (parse_time(each) for each in parts[3:6])
            rows.append(Row(owner, job, state, priority == "0", submitted, start, end, *parts[6:]))
    return rows


@lru_cache(maxsize=4096)  # the jobs of an array share theirs
def parse_time(text: str) -> Optional[float]:
    """`2026-11-23T00:55:42` in local time, as epoch seconds; None for N/A, Unknown and the like."""
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return None


def parse_column(text: str) -> Dict[str, str]:
    """Job id → the other field, of `squeue -O JobArrayID:24,FIELD:24`."""
    lines = [line.strip().partition(" ") for line in text.splitlines()]
    return {job: found.strip() for job, _, found in lines}


def code_and_signal(exit_code: str) -> str:
    """`CODE:SIGNAL` of squeue's field exit_code, which in older versions is the number that wait(2) gives."""
    if not exit_code.isdigit():
        return exit_code
    signal = int(exit_code) & 127
    return f"{0 if signal else int(exit_code) >> 8}:{signal}"


ACCOUNTS = "JobID,JobName,State,ExitCode,Start,End,NodeList"


def parse_accounts(text: str, names: Dict[str, str]) -> Dict[str, Json]:
    """Job id → how the job ended, of `sacct -n -P -X -D -o ACCOUNTS`. names: of the jobs, by id.

    A controller that lost its state gives ids again, so the name counts, too. A requeued job has a line for
    each of its runs: the last one counts.
    """
    out: Dict[str, Json] = {}
    for line in text.splitlines():
        parts = line.split("|")
        if len(parts) == 7 and names.get(parts[0]) == parts[1]:
            job, _, state, code, start, end, nodes = parts
            words = state.split() or [""]  # "CANCELLED by 1000"
            times = {"start": parse_time(start), "end": parse_time(end)}
            nodes = "" if nodes == "None assigned" else nodes
            found: Json = dict(times, state=words[0], exit=code, reason="", nodes=nodes)
            if job not in out or (found["start"] or 0) >= (out[job]["start"] or 0):
                out[job] = found
    return out
