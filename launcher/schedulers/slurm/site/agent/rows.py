"""Parse the output of Slurm's commands: jobs of squeue with their apps, and rows of accounting."""

import re
import time
from functools import lru_cache
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence

from launcher.schedulers.slurm.site.agent.folder import Json
from launcher.schedulers.slurm.site.shared import Owner, Owners

OVER = {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"}
OVER |= {"PREEMPTED", "REVOKED", "TIMEOUT"}


class Row(NamedTuple):
    """A line of squeue: times in epoch seconds, its script as `command`, nodes in Slurm's form."""

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
        """The app that the job runs, "" for none."""
        return self.owner[0]


LISTED = re.compile(r"(\d+)_\[([\d,:-]+)(%\d+)?\]\Z")
"""The job ids of a line for the pending tasks of an array: `7_[0-3,8-20:4%2]`."""
FORMAT = "\x1e" + "\x1f".join(["%i", "%T", "%Q", "%V", "%S", "%e", "%E", "%r", "%N", "%o"])


def parse_rows(text: str, owners: Owners, wanted: Optional[Owner] = None) -> List[Row]:
    """The rows of `squeue -o FORMAT`, of one app if it is `wanted`; text of plugins is left out."""
    rows = []
    for jobs, state, priority, *times, dependency, reason, nodes, command in _lines(text):
        ids = jobs_of(jobs)
        # Times take long to parse, so other jobs are left out first.
        owned = [each for each in zip(owners.of(ids, command), ids) if wanted in (None, each[0])]
        if owned:
            submitted, start, end = map(parse_time, times)
            dependency = "" if dependency == "(null)" else dependency
            held, rest = priority == "0", (dependency, reason, nodes, command)
            rows += [Row(owner, job, state, held, submitted, start, end, *rest) for owner, job in owned]
    return rows


def _lines(text: str) -> Iterator[List[str]]:
    """The fields of each line."""
    lines = (line.rstrip("\n").split("\x1f") for line in text.split("\x1e"))
    return (fields for fields in lines if len(fields) == 10)


def jobs_of(listed: str) -> List[str]:
    """The job ids of a line: many for the pending tasks of an array."""
    found = LISTED.match(listed)
    if found is None:
        return [listed]
    jobs = []
    for part in found.group(2).split(","):
        span, _, step = part.partition(":")
        first, _, last = span.partition("-")
        tasks = range(int(first), int(last or first) + 1, int(step or 1))
        jobs += [f"{found.group(1)}_{task}" for task in tasks]
    return jobs


def is_cut(text: str) -> bool:
    """Whether Slurm has cut a list of tasks short, as it does with long ones unless SLURM_BITSTR_LEN is 0."""
    return any("[" in fields[0] and not LISTED.match(fields[0]) for fields in _lines(text))


@lru_cache(maxsize=4096)  # the jobs of an array have the same times
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
    """`CODE:SIGNAL` of squeue's field exit_code, which in older versions is a wait status of wait(2)."""
    if not exit_code.isdigit():
        return exit_code
    signal = int(exit_code) & 127
    return f"{0 if signal else int(exit_code) >> 8}:{signal}"


ACCOUNTS = "JobID,JobName,State,ExitCode,Start,End,NodeList,NTasks,ElapsedRaw,UserCPU,SystemCPU,MaxRSS"


def parse_accounts(text: str, names: Dict[str, str]) -> Dict[str, Json]:
    """Job id → the end of the job and the use of its steps, from `sacct -n -P -D -o ACCOUNTS`.

    A controller that lost its state reuses ids, so the name in `names` (job id → name) counts, too. Of a
    requeued job, which has a line for each of its runs, each followed by its steps, the last run counts.
    """
    out: Dict[str, Json] = {}
    steps: Dict[str, List[float]] = {}  # steps of the run whose lines are being read
    for line in text.splitlines():
        parts = line.split("|")
        job, dot, step = parts[0].partition(".")
        if len(parts) != 12 or job not in names:
            continue
        if dot:
            if step.isdigit():
                _add_step(steps, parts[1], parts[7:])
            continue
        steps = {}
        if names[job] == parts[1]:
            _, _, state, code, start, end, nodes = parts[:7]
            found: Json = {"exit": code, "reason": "", "steps": steps}
            found["state"] = (state.split() or [""])[0]  # "CANCELLED by 1000"
            found.update(start=parse_time(start), end=parse_time(end))
            found["nodes"] = "" if nodes == "None assigned" else nodes
            if job not in out or (found["start"] or 0) >= (out[job]["start"] or 0):
                out[job] = found
    return out


def _add_step(steps: Dict[str, List[float]], name: str, fields: Sequence[str]) -> None:
    """Add a step: its tasks, wall, user and system time in s, and the memory of its largest task."""
    tasks, elapsed = (int(each) if each.isdigit() else 0 for each in fields[:2])
    user, system = (_seconds(each) for each in fields[2:4])
    size = re.match(r"([\d.]+)([KMGTP]?)\Z", fields[4])
    memory = int(float(size.group(1)) * 1024 ** " KMGTP".index(size.group(2) or " ")) if size else 0
    known = steps.get(name, [0, 0, 0.0, 0.0, 0])
    sums = [a + b for a, b in zip(known, (tasks, elapsed * tasks, user, system))]
    steps[name] = [*sums, max(known[4], memory)]


def _seconds(text: str) -> float:
    """`01:02.345`, `03:01:02`, `1-03:01:02` in s; 0 for other text."""
    if not re.match(r"(\d+-)?[\d:.]+\Z", text):
        return 0.0
    days, _, clock = text.rpartition("-")
    total = 0.0
    for part in clock.split(":"):
        total = total * 60 + float(part or 0)
    return total + 86400 * int(days or 0)
