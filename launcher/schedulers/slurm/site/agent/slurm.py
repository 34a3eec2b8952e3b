"""Slurm's commands, and their output: jobs of squeue with their apps, rows of accounting."""

import os
import pwd
import re
import subprocess
import time
from itertools import groupby
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from launcher.schedulers.slurm.site.shared import Json, Owner, Owners, parse_time, seconds_of

UNREACHABLE = re.compile(
    r"unable to contact|unable to connect|socket timed out|connection refused|connection failure|zero bytes"
    r"|configuration source|munge|authentication|retrying in|timed out|Unable to establish|No route to host",
    re.IGNORECASE,
)
BUSY = re.compile(r"temporarily un|rate.?limit|try again|too many (requests|rpcs)|back.?off", re.IGNORECASE)
FORGOTTEN = re.compile(r"invalid job id|already finished|already completed", re.IGNORECASE)
ADVICE = re.compile('Try "[a-z]+ --help"')
AFTERCORR = 10  # see `_aftercorr`; Slurm's default
CALL_S = 30.0  # time limit of one command of Slurm
SIGNAL_S = 2.0  # time limit of one scancel that sends a signal
SUBMIT_S = 90.0  # time limit of one sbatch, which itself tries again for a while
WORDS = 200  # words of one scancel, which asks the controller once for each
SPANS = 5000  # spans of tasks in one word: Linux allows 128 KiB
TRIES = 5  # tries of a reservation, and of an sbatch that is refused because of a rate limit
KEPT_VARIABLES = re.compile(
    r"(HOME|USER|LOGNAME|SHELL|PATH|LANG|LC_\w+|TZ|TMPDIR|LD_LIBRARY_PATH|SLURM_CONF|MODULE\w*|LMOD\w*"
    r"|__LMOD\w*|_ModuleTable\w*|LOADEDMODULES|BASH_ENV|BASH_FUNC_\S+|SSL_CERT_FILE|KRB5CCNAME)\Z"
)
"""Variables that Slurm's commands inherit. Not SBATCH_PARTITION, which overrides scripts, nor the like."""
WHOLE_LISTS = {"SLURM_BITSTR_LEN": "0"}
"""Makes squeue list all tasks of an array in one line. Source: squeue(1)."""


class OpError(Exception):
    """kind: reserved, refused, no-slurm, no-program, unreachable, full-disk, state, unknown-app or live."""

    def __init__(self, kind: str, message: str, **detail: Any) -> None:
        super().__init__(message)
        self.kind = kind
        self.detail = detail


# -- their output ------------------------------------------------------------------------------------------


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


def listed(jobs: Sequence[str]) -> List[str]:
    """The words for these jobs, of which scancel makes one request each: the tasks of an array are one word.

    The inverse of `jobs_of`, but for ends such as `%2`.
    """
    arrays: Dict[str, List[int]] = {}
    words = []
    for job in jobs:
        array, _, task = job.partition("_")
        if task.isdigit():
            arrays.setdefault(array, []).append(int(task))
        else:
            words.append(job)
    for array, tasks in arrays.items():
        found = spans(tasks)
        portions = [found[first : first + SPANS] for first in range(0, len(found), SPANS)]
        words += (
            [f"{array}_{tasks[0]}"] if len(tasks) == 1 else [f"{array}_[{','.join(p)}]" for p in portions]
        )
    return words


def spans(tasks: Iterable[int]) -> List[str]:
    """Tasks of an array in Slurm's form: [0, 1, 2, 7] → ["0-2", "7"]."""
    runs = (
        [k for _, k in run] for _, run in groupby(enumerate(sorted(tasks)), lambda each: each[1] - each[0])
    )
    return [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]


def is_cut(text: str) -> bool:
    """Whether Slurm has cut a list of tasks short, as it does with long ones unless SLURM_BITSTR_LEN is 0."""
    return any("[" in fields[0] and not LISTED.match(fields[0]) for fields in _lines(text))


def parse_column(text: str) -> Dict[str, str]:
    """Job id → FIELD, from the output of `squeue -O JobArrayID:24,FIELD:24`."""
    lines = [line.strip().partition(" ") for line in text.splitlines()]
    return {job: found.strip() for job, _, found in lines}


def code_and_signal(exit_code: str) -> str:
    """`CODE:SIGNAL` from squeue's field exit_code, which in older versions is a wait status of wait(2)."""
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
    user, system = (seconds_of(each) or 0.0 for each in fields[2:4])
    size = re.match(r"([\d.]+)([KMGTP]?)\Z", fields[4])
    memory = int(float(size.group(1)) * 1024 ** " KMGTP".index(size.group(2) or " ")) if size else 0
    known = steps.get(name, [0, 0, 0.0, 0.0, 0])
    sums = [a + b for a, b in zip(known, (tasks, elapsed * tasks, user, system))]
    steps[name] = [*sums, max(known[4], memory)]


# -- the commands ------------------------------------------------------------------------------------------


class Slurm:
    """Slurm's commands. After one missing answer of the controller, no further call of a request waits."""

    def __init__(self) -> None:
        try:
            self.user = pwd.getpwuid(os.geteuid()).pw_name
        except KeyError:
            self.user = str(os.geteuid())
        self._owners = Owners()
        self._down: Optional[OpError] = None

    def run(
        self,
        argv: Sequence[str],
        limit_s: float = CALL_S,
        cwd: str = "/",
        *,
        text: str = "",
        may_last: bool = False,
    ) -> Tuple[int, str, str]:
        """Run a command, with `text` as its input; returns exit code, output and errors.

        may_last: it succeeds as well when its time is over. Raises OpError no-slurm, unreachable.
        """
        if self._down is not None:
            raise self._down
        try:
            code, out, err = call(argv, limit_s, cwd, text)
        except FileNotFoundError:
            raise OpError("no-slurm", f"there is no {argv[0]} on {os.uname().nodename}") from None
        except subprocess.TimeoutExpired:
            if may_last:
                return 0, "", ""
            self._down = OpError("unreachable", f"{argv[0]} got no answer within {limit_s:.0f} s")
            raise self._down from None
        if code and UNREACHABLE.search(err) and not BUSY.search(err):
            self._down = OpError("unreachable", one_line(err))
            raise self._down
        return code, out, err

    def read(self, argv: Sequence[str]) -> str:
        code, out, err = self.run(argv)
        if code:
            raise OpError("unreachable", f"{argv[0]}: {one_line(err)}")
        return out

    def rows(self, wanted: Optional[Owner] = None) -> List[Row]:
        """The user's jobs, also ended ones that Slurm remembers; `wanted`: see `parse_rows`."""
        argv = ["squeue", "-h", "-t", "all", "-u", self.user, "-o", FORMAT]
        text = self.read(argv)
        if is_cut(text):
            text = self.read([*argv, "-r"])
        return parse_rows(text, self._owners, wanted)

    def column(self, field: str, job_ids: Sequence[str]) -> Dict[str, str]:
        """Job id → a further field, for jobs of the user; jobs that Slurm has forgotten are missing."""
        fields = f"JobArrayID:24,{field}:24"
        argv = ["squeue", "-h", "-r", "-t", "all", "-u", self.user, "-j", ",".join(job_ids), "-O", fields]
        code, out, err = self.run(argv)
        if code and not FORGOTTEN.search(err):
            raise OpError("unreachable", one_line(err))
        return parse_column(out)

    def booted_at(self) -> Optional[float]:
        """The start of the controller, epoch seconds; None where it does not report that."""
        return parse_time(self._config().get("BOOT_TIME", ""))

    def accounts(self, names: Dict[str, str]) -> Dict[str, Json]:
        """The rows of accounting for jobs with these ids and names; none without accounting."""
        argv = ["sacct", "-n", "-P", "-D", "-o", ACCOUNTS, "-j", ",".join(sorted(names))]
        try:
            code, out, _ = call(argv, CALL_S, "/")
        except (FileNotFoundError, subprocess.TimeoutExpired):
            return {}  # accounting fails, but the controller may still answer
        return parse_accounts(out, names) if code == 0 else {}

    def submit(self, argv: Sequence[str], cwd: str) -> str:
        """Run sbatch; returns the job's id. Raises OpError refused, or unreachable (a job may be there)."""
        for left in reversed(range(TRIES)):
            code, out, err = self.run(argv, SUBMIT_S, cwd)
            job = re.match(r"(\d+)(;|$)", out.strip().splitlines()[-1]) if code == 0 and out.strip() else None
            if job:
                return job.group(1)
            if not left or not BUSY.search(err):
                break
            time.sleep(2.0 ** (TRIES - left - 1))
        raise OpError("refused", refusal(err or out))

    def cancel(self, job_ids: Sequence[str], options: Sequence[str] = ()) -> Set[str]:
        """Cancel or signal jobs; returns the jobs that had ended before, without some tasks of arrays.

        scancel sends a signal to a task of an array whose other tasks wait again and again, as Slurm
        (22.05 to 24.11) answers "try again" each time. So it gets the time to send the signal once.
        """
        words, over = listed(job_ids), set()  # type: List[str], Set[str]
        limit_s = SIGNAL_S if options else CALL_S
        for first in range(0, len(words), WORDS):
            portion = words[first : first + WORDS]
            code, _, err = self.run(["scancel", *options, *portion], limit_s, may_last=bool(options))
            if code and err.strip() and not FORGOTTEN.search(err):  # it is silent about jobs that have ended
                raise OpError("refused", refusal(err))
            if code:
                over |= set(re.findall(r"[\w+]+", err)).intersection(portion) or set(portion)
        return over.intersection(job_ids)

    def hello(self) -> Json:
        found = self._config()
        return {
            "cluster": found.get("ClusterName", ""),
            "max_array": int(found.get("MaxArraySize") or 0),
            "max_jobs": int(found.get("MaxJobCount") or 0),
            "aftercorr": _aftercorr(found.get("SchedulerParameters", "")),
        }

    def _config(self) -> Dict[str, str]:
        text = self.read(["scontrol", "show", "config"])
        return dict(re.findall(r"^(\w+)\s*= (.*?)\s*$", text, re.MULTILINE))


def call(argv: Sequence[str], limit_s: float, cwd: str, text: str = "") -> Tuple[int, str, str]:
    """Run a command of Slurm in a session of its own: Ctrl-C must not interrupt an sbatch."""
    env = {name: value for name, value in os.environ.items() if KEPT_VARIABLES.match(name)}
    env.update(WHOLE_LISTS if argv[0] == "squeue" else {})
    pipe = subprocess.PIPE
    done = subprocess.run(
        list(argv),
        input=text.encode("utf-8"),
        stdout=pipe,
        stderr=pipe,
        env=env,
        cwd=cwd,
        start_new_session=True,
        timeout=limit_s,
    )
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def one_line(text: str) -> str:
    return " ".join(text.split())[:400] or "no answer"


def refusal(text: str) -> str:
    """The reason in the output of sbatch: its first error, without the name of the program."""
    given = (each.strip() for each in text.splitlines())
    lines = [
        re.sub(r"^\w+: ((error|fatal): )?", "", each) for each in given if each and not ADVICE.match(each)
    ]
    last = re.sub(r"^(Batch job submission failed|allocation failure): ", "", lines[-1]) if lines else ""
    if len(lines) > 1 and last.split()[:2] != lines[0].split()[:2]:
        last = f"{last} ({lines[0]})"
    return one_line(last or "sbatch said nothing")


def _aftercorr(parameters: str) -> int:
    """The number of tasks that Slurm makes wait, each for the task of the same number in another array.

    Later tasks wait until so many have left the queue, and are cancelled when Slurm has forgotten theirs.
    Source: slurm.conf(5), and build_job_queue in job_scheduler.c.
    """
    found = re.search(r"\bcorrespond_after_task_cnt=(\d+)", parameters)
    return int(found.group(1)) if found and int(found.group(1)) else AFTERCORR
