"""Find the app for which a Slurm job was submitted, by the name of its script. Python >= 3.6."""

import os
from typing import Dict, List, Sequence, Tuple

from launcher.schedulers.appfolder import AppFolder

_SCRIPT = "script-"


def script_of(generation: str) -> str:
    """The second name of an app's script, with which its jobs are submitted."""
    return f"{_SCRIPT}{generation}.sh"


ARRAY_SCRIPT, TASKS = "array.sh", "tasks"
"""The files in the folder of an array: its script, and a line `APP_ID GENERATION` for each task, in order."""


def array_name(array: str) -> str:
    """The name of an array's job."""
    return "launcher-" + array


Owner = Tuple[str, str]
"""The id of an app, and the generation of its folder: another folder of that name has another one."""
NONE: Owner = ("", "")


class Owners:
    """Finds the apps of the jobs that Slurm lists. Reads the tasks of an array once."""

    def __init__(self) -> None:
        self._tasks: Dict[str, List[Owner]] = {}

    def of(self, jobs: Sequence[str], command: str) -> List[Owner]:
        """The apps whose script each of these jobs runs, ("", "") for none: users may give jobs other names.

        jobs: in squeue's form, `123_7` for a task of an array.
        """
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
