"""What the text of Slurm's commands says about jobs."""

import re
import time
from typing import Dict, List, NamedTuple, Optional

from launcher.schedulers.slurm.site.agent.folder import Folder, Json

OVER = {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"}
OVER |= {"PREEMPTED", "REVOKED", "TIMEOUT"}


def script_of(generation: str) -> str:
    """The second name of an app's script, which its jobs are submitted by."""
    return f"script-{generation}.sh"


class Row(NamedTuple):
    """A line of squeue. Times in epoch seconds, None where Slurm knows none. command: the script."""

    job: str
    name: str
    state: str
    held: bool
    submitted_at: Optional[float]
    start_at: Optional[float]
    end_at: Optional[float]
    dependency: str
    reason: str
    command: str

    @property
    def is_over(self) -> bool:
        return self.state in OVER

    def of(self, folder: Folder, generation: str) -> bool:
        """Whether it is a job of this directory, and not of an earlier one of that name.

        By the name of its script: later versions of Slurm show the script without its arguments.
        """
        return self.name == folder.app_id and self.command.endswith(
            f"/{folder.app_id}/{script_of(generation)}"
        )


FORMAT = "\x1e" + "\x1f".join(["%i", "%j", "%T", "%Q", "%V", "%S", "%e", "%E", "%r", "%o"])


def parse_rows(text: str) -> List[Row]:
    """The rows of `squeue -o FORMAT`; text that is none, such as that of a plugin, is left out."""
    rows = []
    for line in text.split("\x1e"):
        parts = line.rstrip("\n").split("\x1f")
        if len(parts) == 10:
            job, name, state, priority, submitted, start, end, dependency, reason, command = parts
            times = parse_time(submitted), parse_time(start), parse_time(end)
            rows.append(Row(job, name, state, priority == "0", *times, dependency, reason, command))
    return rows


def parse_time(text: str) -> Optional[float]:
    """`2026-11-23T00:55:42` in local time, as epoch seconds; None for N/A, Unknown and the like."""
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return None


def parse_jobs(text: str, uid: int) -> Dict[str, Json]:
    """Job id → state, exit, reason, start, end, nodes of `scontrol -o show job`, for the jobs of a user.

    The first field of a name counts: later ones may be part of a comment.
    """
    out = {}
    for line in text.splitlines():
        fields: Dict[str, str] = {}
        for name, value in re.findall(r"(?:^| )([A-Za-z]\w*)=(\S*)", line):
            fields.setdefault(name, value)
        if fields.get("UserId", "").endswith(f"({uid})"):
            out[fields["JobId"]] = {
                "state": fields.get("JobState", ""),
                "exit": fields.get("ExitCode", ""),
                "reason": fields.get("Reason", ""),
                "start": parse_time(fields.get("StartTime", "")),
                "end": parse_time(fields.get("EndTime", "")),
                "nodes": "" if fields.get("NodeList") in (None, "(null)") else fields["NodeList"],
            }
    return out


def parse_accounts(text: str) -> Dict[str, Json]:
    """The same of `sacct -n -P -X -o JobID,State,ExitCode,Start,End,NodeList`."""
    out = {}
    for line in text.splitlines():
        parts = line.split("|")
        if len(parts) == 6:
            job, state, code, start, end, nodes = parts
            words = state.split() or [""]  # "CANCELLED by 1000"
            times = {"start": parse_time(start), "end": parse_time(end)}
            nodes = "" if nodes == "None assigned" else nodes
            out[job] = dict(times, state=words[0], exit=code, reason="", nodes=nodes)
    return out
