"""What the text of Slurm's commands says about jobs."""

import os
import time
from typing import Dict, List, NamedTuple, Optional

from launcher.schedulers.slurm.site.agent.folder import Folder, Json

OVER = {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"}
OVER |= {"PREEMPTED", "REVOKED", "TIMEOUT"}


_SCRIPT = "script-"


def script_of(generation: str) -> str:
    """The second name of an app's script, which its jobs are submitted by."""
    return f"{_SCRIPT}{generation}.sh"


def end_of_path(app_id: str, generation: str) -> str:
    """How the path of that script ends."""
    return f"/{app_id}/{script_of(generation)}"


class Row(NamedTuple):
    """A line of squeue. Times in epoch seconds, None where Slurm knows none.

    command: the script. nodes: a list as Slurm writes it.
    """

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
        """The app whose script it runs, "" for none: users may give the job another name."""
        folder, script = os.path.split(self.command)
        return os.path.basename(folder) if script.startswith(_SCRIPT) else ""

    def of(self, folder: Folder, generation: str) -> bool:
        """Whether it is a job of this directory, and not of an earlier one of that name.

        By the name of its script: later versions of Slurm show the script without its arguments.
        """
        return self.command.endswith(end_of_path(folder.app_id, generation))


FORMAT = "\x1e" + "\x1f".join(["%i", "%T", "%Q", "%V", "%S", "%e", "%E", "%r", "%N", "%o"])


def parse_rows(text: str, script: str = "") -> List[Row]:
    """The rows of `squeue -o FORMAT`; text that is none, such as that of a plugin, is left out.

    script: how the path of the job's script ends. Times take long to read, so others are left out first.
    """
    rows = []
    for line in text.split("\x1e"):
        parts = line.rstrip("\n").split("\x1f")
        if len(parts) == 10 and parts[-1].endswith(script):
            job, state, priority, submitted, start, end, *texts = parts
            times = parse_time(submitted), parse_time(start), parse_time(end)
            rows.append(Row(job, state, priority == "0", *times, *texts))
    return rows


def parse_time(text: str) -> Optional[float]:
    """`2026-11-23T00:55:42` in local time, as epoch seconds; None for N/A, Unknown and the like."""
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return None


def parse_column(text: str) -> Dict[str, str]:
    """Job id → the other field, of `squeue -O JobID:24,FIELD:24`."""
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
