"""The text of Slurm's commands: jobs of squeue with the apps that they run, and rows of accounting."""

import time
from functools import lru_cache
from typing import Dict, List, NamedTuple, Optional

from launcher.schedulers.slurm.site.agent.folder import Json
from launcher.schedulers.slurm.site.owners import Owner, Owners

OVER = {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"}
OVER |= {"PREEMPTED", "REVOKED", "TIMEOUT"}


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
