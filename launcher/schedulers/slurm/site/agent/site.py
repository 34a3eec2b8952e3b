"""The job directory of a user, and its cluster; the answer to a request, whose operations it does.

Loads only the modules of the requested operations.
"""

import base64
import json
import os
import pwd
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from itertools import groupby
from operator import itemgetter
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from launcher.schedulers.appfolder import AppFolder
from launcher.schedulers.slurm.site.agent.folder import (
    NAME,
    Folder,
    Json,
    OpError,
    answered,
    checked,
    replace,
)
from launcher.schedulers.slurm.site.agent.rows import (
    ACCOUNTS,
    FORMAT,
    Row,
    is_cut,
    parse_accounts,
    parse_column,
    parse_rows,
    parse_time,
)
from launcher.schedulers.slurm.site.shared import Owner, Owners

UNREACHABLE = re.compile(
    r"unable to contact|unable to connect|socket timed out|connection refused|connection failure|zero bytes"
    r"|configuration source|munge|authentication|retrying in|timed out|Unable to establish|No route to host",
    re.IGNORECASE,
)
BUSY = re.compile(r"temporarily un|rate.?limit|try again|too many (requests|rpcs)|back.?off", re.IGNORECASE)
FORGOTTEN = re.compile(r"invalid job id|already finished|already completed", re.IGNORECASE)
AFTERCORR = 10  # see `_aftercorr`; Slurm's default
CALL_S = 30.0  # time limit of one command of Slurm
SUBMIT_S = 90.0  # time limit of one sbatch, which itself tries again for a while
TRIES = 5  # tries of a reservation, and of an sbatch that is refused because of a rate limit
KEPT_VARIABLES = re.compile(
    r"(HOME|USER|LOGNAME|SHELL|PATH|LANG|LC_\w+|TZ|TMPDIR|LD_LIBRARY_PATH|SLURM_CONF|MODULE\w*|LMOD\w*"
    r"|__LMOD\w*|_ModuleTable\w*|LOADEDMODULES|BASH_ENV|BASH_FUNC_\S+|SSL_CERT_FILE|KRB5CCNAME)\Z"
)
"""What a job may inherit. SBATCH_PARTITION and such would override the script, SQUEUE_STATES hide jobs."""
WHOLE_LISTS = {"SLURM_BITSTR_LEN": "0"}
"""Makes squeue list all tasks of an array in one line. Source: squeue(1)."""


class Slurm:
    """Slurm's commands. After one missing answer of the controller, no further call of a request waits."""

    def __init__(self) -> None:
        try:
            self.user = pwd.getpwuid(os.geteuid()).pw_name
        except KeyError:
            self.user = str(os.geteuid())
        self._owners = Owners()
        self._down: Optional[OpError] = None

    def run(self, argv: Sequence[str], limit_s: float = CALL_S, cwd: str = "/") -> Tuple[int, str, str]:
        """Run a command; returns exit code, output and errors. Raises OpError no-slurm, unreachable."""
        if self._down is not None:
            raise self._down
        try:
            code, out, err = call(argv, limit_s, cwd)
        except FileNotFoundError:
            raise OpError("no-slurm", f"there is no {argv[0]} on {os.uname().nodename}") from None
        except subprocess.TimeoutExpired:
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
        """Cancel or signal jobs; returns those that had ended before."""
        if not job_ids:
            return set()
        code, _, err = self.run(["scancel", *options, *job_ids])
        if not code:
            return set()
        if not FORGOTTEN.search(err):
            raise OpError("refused", refusal(err))
        return set(re.findall(r"[\w+]+", err)).intersection(job_ids) or set(job_ids)

    def hello(self) -> Json:
        found = self._config()
        return {
            "cluster": found.get("ClusterName", ""),
            "slurm": found.get("SLURM_VERSION", ""),
            "max_array": int(found.get("MaxArraySize") or 0),
            "max_jobs": int(found.get("MaxJobCount") or 0),
            "aftercorr": _aftercorr(found.get("SchedulerParameters", "")),
            "accounting": not found.get("AccountingStorageType", "none").endswith("none"),
        }

    def _config(self) -> Dict[str, str]:
        text = self.read(["scontrol", "show", "config"])
        return dict(re.findall(r"^(\w+)\s*= (.*?)\s*$", text, re.MULTILINE))


def call(argv: Sequence[str], limit_s: float, cwd: str) -> Tuple[int, str, str]:
    """Run a command of Slurm in a session of its own: Ctrl-C must not interrupt an sbatch."""
    env = {name: value for name, value in os.environ.items() if KEPT_VARIABLES.match(name)}
    env.update(WHOLE_LISTS if argv[0] == "squeue" else {})
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    done = subprocess.run(
        list(argv),
        stdin=null,
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
    lines = [re.sub(r"^\w+: (error|fatal): ", "", each.strip()) for each in text.splitlines() if each.strip()]
    last = re.sub(r"^Batch job submission failed: ", "", lines[-1]) if lines else ""
    if len(lines) > 1 and last.split()[:2] != lines[0].split()[:2]:
        last = f"{last} ({lines[0]})"
    return one_line(last or "sbatch said nothing")


SECOND_LOOK_S = 2.0  # after a restart squeue may list nothing for a moment


class Site:
    """The job directory of the user on this cluster, and Slurm."""

    def __init__(self, job_dir: str) -> None:
        self.job_dir = os.path.abspath(os.path.expanduser(os.fsdecode(job_dir.encode("utf-8"))))
        self.apps = os.path.join(self.job_dir, "apps")
        self.outputs = os.path.join(self.job_dir, "outputs")
        self.programs = os.path.join(self.job_dir, "programs")
        self.arrays = os.path.join(self.job_dir, "arrays")
        self.slurm = Slurm()
        self._look: Optional[Dict[Owner, List[Row]]] = None
        self._looks = -1

    def path(self, app_id: Any) -> str:
        return os.path.join(self.apps, checked(app_id))

    def open(self, app_id: Any) -> Folder:
        """Raises OpError unknown-app."""
        try:
            return Folder(self.path(app_id))
        except FileNotFoundError:
            raise OpError("unknown-app", f"no app {app_id} in {self.apps}") from None

    def app_ids(self) -> List[str]:
        try:
            return sorted(name for name in os.listdir(self.apps) if NAME.match(name))
        except FileNotFoundError:
            return []

    def hidden(self) -> List[str]:
        """The paths of directories that are not yet, or no longer, an app or an array."""
        folders = filter(os.path.isdir, (self.apps, self.arrays))
        found = [os.path.join(folder, name) for folder in folders for name in os.listdir(folder)]
        return sorted(path for path in found if os.path.basename(path).startswith("."))

    def rows_of(self, folder: Folder) -> List[Row]:
        """The jobs of an app, without jobs of another app with its name, or with the reused id of its job."""
        owner = (folder.app_id, folder.text("id") or "")
        if self._look is None:
            return self.slurm.rows(owner)
        if not self._looks:
            self._look_again()
        return self._look.get(owner, [])

    @contextmanager
    def one_look(self, count: int) -> Iterator[None]:
        """Ask Slurm once for the jobs of `count` apps, when the first app needs them; an app alone asks for
        its own."""
        self._look, self._looks = ({} if count > 1 else None), 0
        try:
            yield
        finally:
            self._look = None

    def _look_again(self) -> None:
        self._look, self._looks = {}, self._looks + 1
        for row in self.slurm.rows():
            self._look.setdefault(row.owner, []).append(row)

    def of_array(self, array: str) -> List[str]:
        """The live tasks of an array, by the stored look."""
        rows = (row for rows in (self._look or {}).values() for row in rows if not row.is_over)
        return [row.job for row in rows if row.job.partition("_")[0] == array]

    def live_job(self, folder: Folder) -> Optional[Row]:
        """The recorded job of an unstarted app; None when Slurm no longer has it."""
        job = folder.job()
        for is_again in (False, True):
            if is_again and (self._look is None or self._looks < 2):
                time.sleep(SECOND_LOOK_S)
            if is_again and self._look is not None and self._looks < 2:  # all apps share the second look, too
                self._look_again()
            for row in self.rows_of(folder):
                if row.job == job and not row.is_over:
                    return row
        return None

    def program(self, name: Any) -> str:
        """Note that an app uses this program, which `sweep` then leaves. Raises OpError no-program."""
        try:
            os.utime(os.path.join(self.programs, checked(name)))
        except FileNotFoundError:
            raise OpError("no-program", f"there is no {name} in {self.programs}") from None
        return str(name)

    def scripts(self, row: Row) -> bool:
        """Whether a job runs the script of an app in this job directory."""
        return os.path.dirname(os.path.dirname(row.command)) in (self.apps, self.arrays)


def _aftercorr(parameters: str) -> int:
    """The number of tasks that Slurm puts behind the tasks of another array, each on its own.

    Later tasks wait until so many have left the queue, and are cancelled when Slurm has forgotten theirs.
    Source: slurm.conf(5), and build_job_queue in job_scheduler.c.
    """
    found = re.search(r"\bcorrespond_after_task_cnt=(\d+)", parameters)
    return int(found.group(1)) if found and int(found.group(1)) else AFTERCORR


def need_of(site: Site, app_id: str) -> Tuple[str, str]:
    """The state of a needed app, "" before its end; and its job."""
    try:
        with site.open(app_id) as folder:
            outcome, started = folder.json("outcome"), folder.json("started")
            if outcome is not None:
                return str(outcome["state"]), ""
            if started is not None and "job" not in started:
                return "cancelled" if "cancelled" in started else "skipped", ""
            job = (started or {}).get("job") or folder.job()
            if not job:
                raise OpError("state", f"{app_id} has no job yet")
            return "", str(job)
    except OpError as error:
        if error.kind != "unknown-app":
            raise
        return "removed", ""


def put_program(site: Site, op: Json) -> Json:
    """Store a program for nodes: once for all apps of a version."""
    os.makedirs(site.programs, 0o700, exist_ok=True)
    AppFolder(site.programs).write(checked(op["name"]), base64.b64decode(op["data"]))
    return {}


def hello(site: Site, op: Json) -> Json:
    """The description of the cluster; Slurm is asked once a day."""
    cached = None
    path = os.path.join(site.job_dir, "cluster")
    key = os.environ.get("SLURM_CONF", "")
    try:
        with open(path) as file:
            found = json.load(file)
        if found["conf"] == key and "max_array" in found["found"] and 0 <= time.time() - found["at"] < 86400:
            cached = found["found"]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    if cached is None:
        cached = site.slurm.hello()
        os.makedirs(site.job_dir, 0o700, exist_ok=True)
        replace(path, json.dumps({"conf": key, "at": time.time(), "found": cached}))
    here: Json = {"user": site.slurm.user, "home": os.path.expanduser("~"), "job_dir": site.job_dir}
    here["programs"] = os.listdir(site.programs) if os.path.isdir(site.programs) else []
    return dict(cached, python=".".join(str(each) for each in sys.version_info[:3]), **here)


# -- requests ------------------------------------------------------------------------------------------------


MODULES: Dict[str, str] = {
    op: module
    for module, ops in (
        ("site", "hello put_program"),
        ("submit", "reserve create start"),
        ("arrays", "copy_workspace create_array"),
        ("observe", "observe"),
        ("wait", "wait release"),
        ("read", "read tail events"),
        ("removal", "abort remove remove_logs sweep outputs make_output hash_output remove_output"),
        ("ends", "cancel withdraw end"),
    )
    for op in ops.split()
}
"""Operation → the module with the function of its name."""
TOGETHER = {"start": sys.maxsize, "abort": 200, "cancel": 200, "withdraw": 200}
"""Operation whose function takes those of several apps → of how many: the last three open all folders."""


def answer(request: Json) -> Json:
    """Do the operations of a request in order; later operations run also after a failed one.

    Of neighbours of one kind, each for an app, Slurm is asked once for all jobs.
    """
    site = Site(request["job_dir"])
    alike = (list(ops) for _, ops in groupby(request["ops"], itemgetter("op")))
    return {"ok": [answer for ops in alike for answer in _answers(site, ops)]}


def _answers(site: Site, ops: Sequence[Json]) -> List[Json]:
    """The answers to operations of one kind."""
    name = ops[0]["op"]
    act = getattr(import_module(f"launcher.schedulers.slurm.site.agent.{MODULES[name]}"), name)
    most = TOGETHER.get(name)
    if most is None:
        with site.one_look(len(ops)):
            return [answered(partial(act, site, op), site.job_dir) for op in ops]
    answers: List[Json] = []
    for first in range(0, len(ops), most):
        portion = ops[first : first + most]
        found = answered(partial(act, site, portion), site.job_dir)
        answers += found if isinstance(found, list) else [found] * len(portion)
    return answers


def main() -> None:
    """Answer one request: a JSON object in, one out."""
    request = json.loads(sys.stdin.buffer.read().decode("utf-8"))
    sys.stdout.write(json.dumps(answer(request)) + "\n")
