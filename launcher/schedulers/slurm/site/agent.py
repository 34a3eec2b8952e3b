"""Operations on the login node of a cluster: app directories and Slurm's jobs, for one JSON request.

Runs there as a program, with the request on stdin, or is imported where Slurm's commands are on this machine.
Python 3.6 and its standard library are enough. SIGKILL may come at any line, and several clients may work for
one app id at once, so each decision is one call of link(2) or rename(2), which also holds on NFS:

`apps/<app id>`  appears whole, by a rename, with `id`, `attempt.json` and its first `owner`
`owner.<nonce>`  the successor of the owner with that nonce: a link, so each owner has one successor at most
`started`        what came first: the start of a job, a cancellation, a withdrawal, or the removal of all;
                 for the last it is a link to the file of the owner that removes
`job`            the job of the app; another one of that name is superfluous and is cancelled
"""

import base64
import errno
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

Json = Dict[str, Any]

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@-]{0,199}\Z")
"""Of app ids, role folders, output folders and files: no path, no option, no hidden file."""

KEPT = {"attempt.json", "id", "outcome"}
"""The files that stay of an app whose outcome is kept."""

TEXTS = ("app.json", "script.sh", "slurm.out", "events", "attempt.json", "outcome")
OVER = {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"}
OVER |= {"PREEMPTED", "REVOKED", "TIMEOUT"}
UNREACHABLE = re.compile(
    r"unable to contact|unable to connect|socket timed out|connection refused|connection failure|zero bytes"
    r"|configuration source|munge|authentication|retrying in|timed out|Unable to establish|No route to host",
    re.IGNORECASE,
)
BUSY = re.compile(r"temporarily un|rate.?limit|try again|too many (requests|rpcs)|back.?off", re.IGNORECASE)
FORGOTTEN = re.compile(r"invalid job id|already finished|already completed", re.IGNORECASE)

FULL = (errno.ENOSPC, errno.EDQUOT)

CALL_S = 30.0  # of one command of Slurm
SUBMIT_S = 90.0  # of one sbatch, which itself tries again for a while
TRIES = 5  # of a reservation, and of an sbatch that is refused because of a rate limit
SECOND_LOOK_S = 2.0  # after a restart squeue may list nothing for a moment
STALE_S = 3600.0  # temporary files of this age belong to no live agent
TAIL = 1 << 20  # bytes of a text
KEPT_VARIABLES = re.compile(
    r"(HOME|USER|LOGNAME|SHELL|PATH|LANG|LC_\w+|TZ|TMPDIR|LD_LIBRARY_PATH|SLURM_CONF|MODULE\w*|LMOD\w*"
    r"|__LMOD\w*|_ModuleTable\w*|LOADEDMODULES|BASH_ENV|BASH_FUNC_\S+|SSL_CERT_FILE|KRB5CCNAME)\Z"
)
"""What a job may inherit. SBATCH_PARTITION and such would override the script, SQUEUE_STATES hide jobs."""


class OpError(Exception):
    """kind: reserved, refused, no-slurm, unreachable, full-disk, state, unknown-app, live, after."""

    def __init__(self, kind: str, message: str, **detail: Any) -> None:
        super().__init__(message)
        self.kind = kind
        self.detail = detail


def answer(request: Json) -> Json:
    """Do the operations of a request in order; one that fails does not keep later ones from running, unless
    they have `"after": true`."""
    site, failed = Site(request["job_dir"]), False
    out: List[Json] = []
    for op in request["ops"]:
        try:
            if failed and op.get("after"):
                raise OpError("after", "an operation before this one failed")
            out.append(OPS[op["op"]](site, op))
        except OpError as error:
            out.append({"error": error.kind, "message": str(error), "detail": error.detail})
        except OSError as error:
            kind = "full-disk" if error.errno in FULL else "state"
            where = error.filename or site.job_dir
            message = f"{os.fsdecode(where)}: {error.strerror or error}"
            out.append({"error": kind, "message": message, "detail": {}})
        failed = failed or "error" in out[-1]
    return {"ok": out}


# App directories


class Folder:
    """An open app directory. Another one that replaces it under its name is not touched through this one."""

    def __init__(self, path: str) -> None:
        """Raises FileNotFoundError."""
        self.path = path
        self.app_id = os.path.basename(path)
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)

    def __enter__(self) -> "Folder":
        return self

    def __exit__(self, *_: Any) -> None:
        os.close(self._fd)

    def names(self) -> Set[str]:
        """Listed, not probed one by one: NFS caches that a name is missing."""
        return set(os.listdir(self._fd))

    def text(self, name: str) -> Optional[str]:
        try:
            fd = os.open(name, os.O_RDONLY, dir_fd=self._fd)
        except FileNotFoundError:
            return None
        with os.fdopen(fd, "rb") as file:
            return file.read().decode("utf-8", "replace")

    def json(self, name: str) -> Optional[Json]:
        """Raises OpError state for anything but a JSON object."""
        text = self.text(name)
        if text is None:
            return None
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise OpError("state", f"{os.path.join(self.path, name)} is damaged")
        return found

    def write(self, name: str, text: str, mode: int = 0o600) -> None:
        """Replace a file as a whole; after an error the earlier one is still there."""
        temp = self._temporary(name, text, mode)
        try:
            os.rename(temp, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except BaseException:
            self.unlink(temp)
            raise

    def link(self, name: str, text: str) -> bool:
        """Make a file that only the first writer makes; whether this was the first one."""
        temp = self._temporary(name, text, 0o600)
        try:
            try:
                os.link(temp, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
            except FileExistsError:
                pass
            # NFS may have lost the reply to a link that was made: the count of links decides.
            return os.stat(temp, dir_fd=self._fd).st_nlink == 2
        finally:
            self.unlink(temp)

    def link_to(self, source: str, name: str) -> bool:
        """Like `link`, with an existing file: it also works when the disk is full."""
        try:
            os.link(source, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except FileExistsError:
            pass
        made, wanted = os.stat(name, dir_fd=self._fd), os.stat(source, dir_fd=self._fd)
        return (made.st_dev, made.st_ino) == (wanted.st_dev, wanted.st_ino)

    def unlink(self, name: str) -> None:
        try:
            os.unlink(name, dir_fd=self._fd)
        except OSError:
            pass

    def is_at(self, path: str) -> bool:
        """Whether this is the directory of that path now."""
        mine = os.fstat(self._fd)
        try:
            there = os.stat(path)
        except OSError:
            return False
        return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)

    def age_s(self, name: str) -> float:
        """Seconds since it was written, 0 when it has gone."""
        try:
            return time.time() - os.stat(name, dir_fd=self._fd, follow_symlinks=False).st_mtime
        except OSError:
            return 0.0

    def owner(self) -> Tuple[Optional[Json], str, str]:
        """The present owner, the name of its file, and the name of its successor's."""
        owner: Optional[Json] = None
        at, name = "", "owner"
        while True:
            found = self.json(name)
            if found is None:
                return owner, at, name
            owner, at, name = found, name, "owner." + checked(str(found.get("nonce")))

    def _temporary(self, name: str, text: str, mode: int) -> str:
        temp = f".{name}.{token()}"
        fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode, dir_fd=self._fd)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(text.encode("utf-8", "surrogateescape"))
        except BaseException:
            self.unlink(temp)
            raise
        return temp


class Site:
    """The job directory of the user on this cluster, and Slurm."""

    def __init__(self, job_dir: str) -> None:
        self.job_dir = os.path.abspath(os.path.expanduser(os.fsdecode(job_dir.encode("utf-8"))))
        self.apps = os.path.join(self.job_dir, "apps")
        self.outputs = os.path.join(self.job_dir, "outputs")
        self.slurm = Slurm()

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
        """The paths of directories that are no app any more, or not yet."""
        try:
            names = [name for name in os.listdir(self.apps) if name.startswith(".")]
        except FileNotFoundError:
            return []
        return [os.path.join(self.apps, name) for name in sorted(names)]

    def scripts(self, row: "Row") -> bool:
        """Whether a job runs the script of an app of this job directory."""
        return row.command.startswith(os.path.join(self.apps, row.name, script_of("")[:-3]))


def token() -> str:
    return base64.b16encode(os.urandom(6)).decode()


def checked(name: Any) -> str:
    """Raises OpError state for a name that may lead out of its directory."""
    if not isinstance(name, str) or not NAME.match(name):
        raise OpError("state", f"{name!r} is no name of an app, a folder or a file")
    return name


def remove_tree(path: str) -> None:
    """Remove a directory with all contents, also read-only ones; another process may do the same."""

    def retry(function: Callable[[str], Any], at: str, _: Any) -> None:
        try:
            os.chmod(os.path.dirname(at), 0o700)
            if os.path.isdir(at) and not os.path.islink(at):
                os.chmod(at, 0o700)
                shutil.rmtree(at, ignore_errors=True)
            else:
                function(at)
        except OSError:
            pass  # sweep tries again

    shutil.rmtree(path, onerror=retry)


# Slurm


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


class Slurm:
    """Slurm's commands. When its controller has not answered once, no further call of this request waits."""

    def __init__(self) -> None:
        self.user = user_name()
        self._down: Optional[OpError] = None

    def run(self, argv: Sequence[str], limit_s: float = CALL_S, cwd: str = "/") -> Tuple[int, str, str]:
        """Exit code, output and errors. Raises OpError no-slurm, unreachable."""
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

    def rows(self, name: Optional[str] = None) -> List[Row]:
        """The user's jobs, also the ended ones that Slurm remembers."""
        argv = ["squeue", "-h", "-r", "-t", "all", "-u", self.user, "-o", FORMAT]
        return parse_rows(self.read(argv + (["-n", name] if name else [])))

    def jobs(self, job_ids: Sequence[str]) -> Dict[str, Json]:
        """What the controller knows of these jobs; those that it has forgotten are missing."""
        one = list(job_ids) if len(job_ids) == 1 else []
        code, out, err = self.run(["scontrol", "-o", "show", "job", *one])
        if code and not FORGOTTEN.search(err):
            raise OpError("unreachable", one_line(err))
        found = parse_jobs(out, os.geteuid())
        return {job: found[job] for job in job_ids if job in found}

    def accounts(self, job_ids: Sequence[str]) -> Dict[str, Json]:
        """What accounting knows of these jobs: nothing, where there is none."""
        fields = "JobID,State,ExitCode,Start,End,NodeList"
        argv = ["sacct", "-n", "-P", "-X", "-o", fields, "-j", ",".join(job_ids)]
        try:
            code, out, _ = call(argv, CALL_S, "/")
        except (FileNotFoundError, subprocess.TimeoutExpired):
            return {}  # the controller may answer all the same
        return parse_accounts(out) if code == 0 else {}

    def submit(self, argv: Sequence[str], cwd: str) -> str:
        """The id of the new job. Raises OpError refused, unreachable; after the latter there may be a job."""
        for left in reversed(range(TRIES)):
            code, out, err = self.run(argv, SUBMIT_S, cwd)
            job = re.match(r"(\d+)(;|$)", out.strip().splitlines()[-1]) if code == 0 and out.strip() else None
            if job:
                return job.group(1)
            if not left or not BUSY.search(err):
                break
            time.sleep(2.0 ** (TRIES - left - 1))
        raise OpError("refused", refusal(err or out))

    def cancel(self, job_ids: Sequence[str], options: Sequence[str] = ()) -> bool:
        """Cancel or signal jobs; False when one of them has ended by now."""
        if not job_ids:
            return True
        code, _, err = self.run(["scancel", *options, *job_ids])
        if code and not FORGOTTEN.search(err):
            raise OpError("refused", refusal(err))
        return code == 0

    def hello(self) -> Json:
        text = self.read(["scontrol", "show", "config"])
        found = dict(re.findall(r"^(\w+)\s*= (.*?)\s*$", text, re.MULTILINE))
        return {
            "cluster": found.get("ClusterName", ""),
            "slurm": found.get("SLURM_VERSION", ""),
            "accounting": not found.get("AccountingStorageType", "none").endswith("none"),
        }


def call(argv: Sequence[str], limit_s: float, cwd: str) -> Tuple[int, str, str]:
    """Run a command of Slurm in a session of its own: Ctrl-C must not cut an sbatch in two."""
    env = {name: value for name, value in os.environ.items() if KEPT_VARIABLES.match(name)}
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        env=env,
        cwd=cwd,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=limit_s)
    except BaseException:
        process.kill()
        process.communicate()
        raise
    return process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


def user_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def one_line(text: str) -> str:
    return " ".join(text.split())[:400] or "no answer"


def refusal(text: str) -> str:
    """The reason in what sbatch printed: its first error, without the name of the program."""
    lines = [re.sub(r"^\w+: (error|fatal): ", "", each.strip()) for each in text.splitlines() if each.strip()]
    last = re.sub(r"^Batch job submission failed: ", "", lines[-1]) if lines else ""
    if len(lines) > 1 and last.split()[:2] != lines[0].split()[:2]:
        last = f"{last} ({lines[0]})"
    return one_line(last or "sbatch said nothing")


# Submission


def hello(site: Site, op: Json) -> Json:
    """What the cluster is; Slurm is asked once a day."""
    cached = None
    path = os.path.join(site.job_dir, "cluster")
    key = os.environ.get("SLURM_CONF", "")
    try:
        with open(path) as file:
            found = json.load(file)
        if found["conf"] == key and 0 <= time.time() - found["at"] < 86400:
            cached = found["found"]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    if cached is None:
        cached = site.slurm.hello()
        os.makedirs(site.job_dir, 0o700, exist_ok=True)
        replace(path, json.dumps({"conf": key, "at": time.time(), "found": cached}))
    here = {"user": site.slurm.user, "home": os.path.expanduser("~"), "job_dir": site.job_dir}
    return dict(cached, python=".".join(str(each) for each in sys.version_info[:3]), **here)


def replace(path: str, text: str) -> None:
    """Write a cache as a whole; it stays as it is where it cannot be written."""
    temp = f"{path}.{token()}"
    try:
        with open(temp, "w") as file:
            file.write(text)
        os.rename(temp, path)
    except OSError:
        try:
            os.unlink(temp)
        except OSError:
            pass


def reserve(site: Site, op: Json) -> Json:
    """Take an app id: a new directory, or that of a dead owner which is complete and of the same digest."""
    path, owner, record = site.path(op["app_id"]), op["owner"], op["record"]
    checked(str(owner.get("nonce")))
    for _ in range(TRIES):
        try:
            folder = Folder(path)
        except FileNotFoundError:
            if _make(site, path, owner, record):
                return {"resumed": False}
            continue
        with folder:
            try:
                found = _take_over(folder, owner, record, op.get("dead", ()))
                if not folder.is_at(path):
                    continue  # files that another client was removing looked like those of a dead owner
                if found is not None:
                    return {"resumed": found}
                _dismantle(site, folder)
            except FileNotFoundError:
                if folder.is_at(path):
                    raise  # else another client removes it
    raise OpError("reserved", "other clients take {} at this moment".format(op["app_id"]), state="reserved")


def _make(site: Site, path: str, owner: Json, record: Json) -> bool:
    """Make an app directory with its owner in it; False when there is one already."""
    os.makedirs(site.apps, 0o700, exist_ok=True)
    generation = "{}.{}".format(owner["nonce"], token())
    temp = os.path.join(site.apps, f".new-{os.path.basename(path)}-{generation}")
    os.mkdir(temp, 0o700)
    try:
        with Folder(temp) as folder:
            folder.write("id", generation)
            folder.write("attempt.json", json.dumps(record))
            folder.write("owner", json.dumps(owner))
        os.rename(temp, path)
        return True
    except OSError as error:
        remove_tree(temp)
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        with Folder(path) as there:  # NFS may have lost the reply to a rename that was made
            return bool(there.text("id") == generation)
    except BaseException:
        remove_tree(temp)
        raise


def _take_over(folder: Folder, owner: Json, record: Json, dead: Sequence[str]) -> Optional[bool]:
    """Whether the submission is resumed, as far as it is; None: the directory is to be removed.

    Raises OpError reserved when it has been started, or its owner is not among the dead ones.
    """
    present, _, successor = folder.owner()
    _refuse_started(folder, present)
    if present is not None and present["nonce"] == owner["nonce"]:
        return "created" in folder.names()
    removal = folder.json("started") if "started" in folder.names() else None
    if removal is not None and removal["nonce"] in (*dead, owner["nonce"]):
        return None  # it was interrupted
    if removal is not None:
        raise _reserved(folder, "reserved", removal, progress_at=time.time() - folder.age_s("started"))
    if present is not None and present["nonce"] not in dead:
        progress = time.time() - min((folder.age_s(name) for name in folder.names()), default=0.0)
        raise _reserved(folder, _state(folder), present, progress_at=progress)
    if not folder.link(successor, json.dumps(owner)):
        present = folder.owner()[0]
        raise _reserved(folder, _state(folder), present, progress_at=time.time())
    _refuse_started(folder, None)
    before = folder.json("attempt.json") or {}
    if "created" in folder.names() and before.get("digest") and before.get("digest") == record.get("digest"):
        return True
    return None


def _refuse_started(folder: Folder, owner: Optional[Json]) -> None:
    """Raise OpError reserved for an app that was submitted, cancelled or withdrawn."""
    names = folder.names()
    started = folder.json("started") if "started" in names else None
    if "outcome" in names or "submitted" in names or (started is not None and not is_removed(started)):
        raise _reserved(folder, _state(folder), None)


def _reserved(folder: Folder, state: str, owner: Optional[Json], **detail: Any) -> OpError:
    message = f"{folder.app_id} is {state}"
    return OpError("reserved", message, state=state, owner=owner, **detail)


def is_removed(started: Json) -> bool:
    """Whether it is the link of an owner that removes the app."""
    return not started.keys() & {"job", "cancelled", "withdrawn"}


def _state(folder: Folder) -> str:
    """The state of an app as far as its directory tells."""
    outcome, started = folder.json("outcome"), folder.json("started")
    if outcome is not None:
        return str(outcome.get("state"))
    if started is not None and not is_removed(started):
        return "running" if "job" in started else "cancelled" if "cancelled" in started else "skipped"
    names = folder.names()
    return "queued" if "submitted" in names else "created" if "created" in names else "reserved"


def _dismantle(site: Site, folder: Folder) -> None:
    """Remove an app of which nothing has started; the caller is its owner, or completes what one began.

    Raises OpError reserved when it was started just now.
    """
    at = folder.owner()[1]
    started = folder.json("started")
    if started is None and at and not folder.link_to(at, "started"):
        started = folder.json("started")
    if started is not None and not is_removed(started):
        raise _reserved(folder, _state(folder), None)
    _cancel_jobs(site, folder)
    _put_away(site, folder)


def _cancel_jobs(site: Site, folder: Folder, but: str = "") -> List[str]:
    """Cancel all jobs of an app; without a call when none was ever submitted."""
    if "submitting" not in folder.names():
        return []
    generation = folder.text("id") or ""
    rows = [row for row in site.slurm.rows(folder.app_id) if row.of(folder, generation)]
    jobs = [row.job for row in rows if not row.is_over and row.job != but]
    site.slurm.cancel(jobs)
    return jobs


def _put_away(site: Site, folder: Folder) -> None:
    """Remove an app directory: out of the list first, at once, then its contents."""
    gone = os.path.join(site.apps, f".gone-{folder.app_id}-{token()}")
    path = site.path(folder.app_id)
    if not folder.is_at(path):
        return  # another client was faster
    try:
        os.rename(path, gone)
    except FileNotFoundError:
        return
    if not folder.is_at(gone):  # another client had removed it and made a new one, between these two lines
        try:
            os.rename(gone, path)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise  # else there is a newer one by now: the owner of this one learns it at its next act
    remove_tree(gone)


def create(site: Site, op: Json) -> Json:
    """Write all files and submit a held job, or the outcome `skipped` for a need that has not succeeded."""
    with site.open(op["app_id"]) as folder:
        _own(folder, op.get("nonce"))
        names = folder.names()
        if "created" in names:
            return {"job": folder.text("job")}
        for name, text in op["files"].items():
            folder.write(checked(name), text, 0o700 if name == "script.sh" else 0o600)
        if op.get("secret"):
            folder.write("secrets", json.dumps(op["secret"]))
        needs = op.get("needs") or []
        waits, skip = _judge(site, folder, needs)
        if skip is not None:
            return skip
        job = _submit(site, folder, op["argv"], waits, "submitting" in names)
        _own(folder, op.get("nonce"), lambda: site.slurm.cancel([job]))
        names_of = {each["app_id"]: each.get("job") or each["app_id"] for each in needs}
        waits_for = {app_id: names_of[app_id] for app_id in waits}
        created = {"at": time.time(), "needs": list(names_of), "waits": waits_for}
        folder.write("created", json.dumps(created))
        return {"job": job}


def _own(folder: Folder, nonce: Optional[str], undo: Callable[[], Any] = lambda: None) -> None:
    """Raise OpError reserved, after `undo`, unless the client of this nonce may still start the app."""
    owner = folder.owner()[0]
    started = folder.json("started")
    is_mine = nonce is None or (owner is not None and owner["nonce"] == nonce)
    if started is not None or not is_mine or not folder.is_at(folder.path):
        undo()
        raise _reserved(folder, _state(folder), owner if started is None else None)


def _need(site: Site, app_id: str) -> Tuple[str, str]:
    """The state of an app that another one needs, "" while it has no end; and its job."""
    try:
        with site.open(app_id) as folder:
            outcome, started = folder.json("outcome"), folder.json("started")
            if outcome is not None:
                return str(outcome["state"]), ""
            if started is not None and "job" not in started:
                return "cancelled" if "cancelled" in started else "skipped", ""
            job = (started or {}).get("job") or folder.text("job")
            if job is None:
                raise OpError("state", f"{app_id} has no job yet")
            return "", str(job)
    except OpError as error:
        if error.kind != "unknown-app":
            raise
        return "removed", ""


def _judge(site: Site, folder: Folder, needs: Sequence[Json]) -> Tuple[Dict[str, str], Optional[Json]]:
    """App id → job of the needs that have not ended, or the answer for a need that has not succeeded."""
    waits = {}
    for need in needs:
        state, job = _need(site, need["app_id"])
        if state not in ("", "succeeded"):
            return {}, _skip(folder, need, state)
        if not state:
            waits[need["app_id"]] = job
    return waits, None


def _skip(folder: Folder, need: Json, state: str) -> Json:
    job = need.get("job") or need["app_id"]
    message = f"{job} failed" if state == "failed" else f"{job} was {state}"
    _record(folder, "skipped", message)
    return {"skipped": need["app_id"], "message": message}


def _record(folder: Folder, state: str, message: str) -> bool:
    """Link the outcome of an app of which nothing has run."""
    now: Json = {
        "started_at": None,
        "ended_at": time.time(),
        "exit_code": None,
        "restarts": 0,
        "replicas": [],
    }
    won = folder.link("outcome", json.dumps(dict(now, state=state, message=message)))
    folder.unlink("secrets")
    return won


def _submit(site: Site, folder: Folder, argv: Sequence[str], waits: Dict[str, str], again: bool) -> str:
    """The app's held job: of an earlier, interrupted call, or a new one."""
    if not argv or os.path.basename(argv[0]) != "sbatch" or not all(each[:1] == "-" for each in argv[1:]):
        raise OpError("state", f"want options of sbatch, got {list(argv)}")
    generation = folder.text("id") or ""
    folder.write("submitting", json.dumps({"at": time.time()}))
    job = _adopt(site, folder, generation) if again else None
    if job is None:
        folder.link_to("script.sh", script_of(generation))
        script = os.path.join(folder.path, script_of(generation))
        options = ["--hold", "--parsable", "--job-name=" + folder.app_id]
        options += ["--output=" + os.path.join(folder.path, "slurm.out"), "--open-mode=append"]
        if waits:
            options += ["--dependency=afterok:" + ":".join(waits.values()), "--kill-on-invalid-dep=yes"]
        job = site.slurm.submit(list(argv) + options + [script], folder.path)
    try:
        if folder.link("job", job):
            return job
    except FileNotFoundError:  # the directory was removed in the meantime
        site.slurm.cancel([job])
        raise
    winner = folder.text("job") or job
    if winner != job:
        site.slurm.cancel([job])
    return winner


def _adopt(site: Site, folder: Folder, generation: str) -> Optional[str]:
    """The job that an interrupted call submitted; further ones are cancelled."""
    rows = [row for row in site.slurm.rows(folder.app_id) if row.of(folder, generation) and not row.is_over]
    jobs = sorted((row.job for row in rows), key=int)
    known = folder.text("job")
    keep = known if known in jobs else jobs[0] if jobs else None
    site.slurm.cancel([job for job in jobs if job != keep])
    return keep


def start(site: Site, op: Json) -> Json:
    """Release the job. Done twice, it changes nothing."""
    with site.open(op["app_id"]) as folder:
        names = folder.names()
        if "outcome" not in names and "submitted" not in names:
            started = folder.json("started")
            if started is None or is_removed(started):
                _own(folder, op.get("nonce"))
                if "created" not in names:
                    raise OpError("state", f"{folder.app_id} has not been created")
                ended = _release(site, folder)
                if ended is not None:
                    return ended
            try:
                folder.write("submitted", json.dumps({"at": time.time()}))
            except OSError as error:
                if error.errno not in FULL:
                    raise
                return _accepted(folder)  # the queue shows that it was released
        for name in folder.names():
            if name == "owner" or name.startswith("owner."):
                folder.unlink(name)
        return _accepted(folder)


def _accepted(folder: Folder) -> Json:
    state, created = _state(folder), folder.json("created") or {}
    if state in ("created", "queued"):
        state = "waiting" if created.get("waits") else "queued"
    return {"state": state}


def _release(site: Site, folder: Folder) -> Optional[Json]:
    """Release the held job; the answer when a need has not succeeded. Raises OpError refused, state."""
    job = (folder.text("job") or "").strip()
    skip = _skip_now(site, folder, job)
    if skip is not None:
        return skip
    code, _, err = site.slurm.run(["scontrol", "release", job])
    if not code:
        return None
    live = [row for row in site.slurm.rows(folder.app_id) if row.job == job and not row.is_over]
    started = folder.json("started")
    if any(not row.held for row in live) or (started is not None and "job" in started):
        return None  # released before
    if FORGOTTEN.search(err):
        raise OpError("state", f"job {job} of {folder.app_id} has been cancelled")
    raise OpError("refused", refusal(err))


def _skip_now(site: Site, folder: Folder, job: str) -> Optional[Json]:
    """The answer for an app whose need has not succeeded, or has been forgotten by Slurm: the dependency on
    such a job is dropped, so that ours would start."""
    waits = (folder.json("created") or {}).get("waits") or {}
    known = {row.job for row in site.slurm.rows() if not row.is_over} if waits else set()
    for app_id, name in waits.items():
        state, need_job = _need(site, app_id)
        if not state and need_job not in known:
            state = _need(site, app_id)[0] or "lost"
        if state not in ("", "succeeded"):
            site.slurm.cancel([job])
            return dict(_skip(folder, {"app_id": app_id, "job": name}, state), state="skipped")
    return None


def abort(site: Site, op: Json) -> Json:
    """Remove an app that this owner has not started. May be called twice."""
    try:
        folder = site.open(op["app_id"])
    except OpError:
        return {"removed": False}
    with folder:
        owner = folder.owner()[0]
        if owner is None or owner["nonce"] != op["nonce"] or "submitted" in folder.names():
            return {"removed": False}
        try:
            _dismantle(site, folder)
        except OpError as error:
            if error.kind != "reserved":
                raise
            return {"removed": False}
        return {"removed": True}


# Observation


def observe(site: Site, op: Json) -> Json:
    """The facts of the apps that are asked for: `app_ids`, or all live ones, and the latest of `latest_of`.

    With `queue`, the rows of apps that have an outcome, too: their jobs may not be gone yet.

    One squeue, one scontrol and one sacct at most, whatever the number of apps.
    """
    asked, settled = op.get("app_ids"), set(op.get("settled") or ())
    every = site.app_ids()
    ids = every if asked is None else sorted(set(asked).intersection(every))
    ended = Ended(site, ids if asked is not None else every)
    wanted = [each for each in ids if each not in settled]
    if asked is None and not op.get("ended"):
        latest = ended.latest([tuple(key) for key in op.get("latest_of") or ()])
        wanted = [each for each in wanted if each not in ended.stamps or each in latest]
    live = [each for each in wanted if each not in ended.stamps or op.get("queue")]
    apps: Dict[str, Json] = {}
    errors: Dict[str, str] = {}
    for app_id in wanted:
        if app_id in ended.stamps:
            _add(apps, errors, app_id, ended.facts, app_id, bool(op.get("replicas")))
    out: Json = {"apps": apps}
    if live:
        try:
            apps.update(look(site, live, errors, bool(op.get("replicas"))))
        except OpError as error:
            for app_id in live:
                _add(apps, errors, app_id, _read_app, site, app_id, op.get("replicas"))
            raise OpError(error.kind, str(error), apps=apps, errors=errors) from error
    ended.save()
    return dict(out, errors=errors) if errors else out


def _add(
    apps: Dict[str, Json],
    errors: Dict[str, str],
    app_id: str,
    read: Callable[..., Optional[Json]],
    *args: Any,
) -> None:
    try:
        facts = read(*args)
    except OpError as error:
        if error.kind != "unknown-app":
            errors[app_id] = str(error)
    else:
        if facts is not None:
            apps[app_id] = facts


def look(
    site: Site, app_ids: Sequence[str], errors: Dict[str, str], replicas: bool = False
) -> Dict[str, Json]:
    """The facts of apps that may be live.

    The queue is read first: an app that is not in it then has written its outcome, unless it died.
    """
    apps: Dict[str, Json] = {}
    _look(site, app_ids, replicas, apps, errors)
    unexplained = [app_id for app_id, facts in apps.items() if _is_unexplained(facts)]
    if unexplained:
        time.sleep(SECOND_LOOK_S)
        _look(site, unexplained, replicas, apps, errors)
        for app_id in unexplained:
            if app_id in apps and _is_unexplained(apps[app_id]):
                apps[app_id]["vanished"] = True
    return apps


def _look(
    site: Site, app_ids: Sequence[str], replicas: bool, apps: Dict[str, Json], errors: Dict[str, str]
) -> None:
    by_name: Dict[str, List[Row]] = {}
    for row in site.slurm.rows():
        by_name.setdefault(row.name, []).append(row)
    for app_id in app_ids:
        apps.pop(app_id, None)
        _add(apps, errors, app_id, _read_app, site, app_id, replicas, by_name.get(app_id, []))
    _explain(site, [facts for facts in apps.values() if _has_left(facts)])


def _has_left(facts: Json) -> bool:
    """Whether its job should be in the queue, and is not."""
    if facts["outcome"] is not None or facts["queue"] or facts["job"] is None:
        return False
    return facts["started"] is None or "job" in facts["started"]


def _is_unexplained(facts: Json) -> bool:
    return (_has_left(facts) and facts["ended"] is None) or _is_queued_again(facts)


def _is_queued_again(facts: Json) -> bool:
    """Whether a job that has run the app, and may not be requeued, waits to run it again.

    Its controller was killed, and came back with what it had written down before the start. Seen twice: the
    job may start between the look at the queue and the look at the folder.
    """
    cfg = (facts["attempt"].get("document") or {}).get("cfg") or {}
    waits = facts["queue"] and all(row["state"] == "PENDING" for row in facts["queue"])
    has_run = "job" in (facts["started"] or {}) and facts["outcome"] is None
    return bool(waits) and has_run and cfg.get("on_preempted") != "requeue"


def _explain(site: Site, left: List[Json]) -> None:
    """Add how the jobs of these apps ended, or that they have not."""
    if not left:
        return
    jobs = [facts["job"] for facts in left]
    known = site.slurm.jobs(jobs)
    missing = [job for job in jobs if job not in known]
    if missing:
        known = dict(site.slurm.accounts(missing), **known)
    for facts in left:
        found = known.get(facts["job"])
        if found is None:
            continue
        if found["state"] in OVER:
            facts["ended"], facts["vanished"] = found, facts["submitted"] is not None
        else:  # squeue did not list it
            row = {"job": facts["job"], "state": found["state"], "reason": found["reason"], "held": False}
            facts["queue"] = [dict(row, dependency="", submitted_at=None, start_at=found["start"])]


def _read_app(
    site: Site, app_id: str, replicas: Any = False, rows: Optional[List[Row]] = None
) -> Optional[Json]:
    """The facts of one app; None for one whose removal has begun. rows: squeue's of this name, if asked."""
    with site.open(app_id) as folder:
        names = folder.names()
        found: Dict[str, Any] = {
            name: folder.json(name) if name in names else None
            for name in ("created", "submitted", "started", "cancel", "outcome")
        }
        started = found["started"]
        if started is not None and is_removed(started):
            return None
        attempt = folder.json("attempt.json")
        if attempt is None:
            raise OpError("state", f"{folder.path} has no attempt.json")
        job = (started or {}).get("job") or ("job" in names and (folder.text("job") or "").strip()) or None
        generation = folder.text("id") or ""
        mine = [row for row in rows or () if row.of(folder, generation)]
        live = [row for row in mine if not row.is_over and (job is None or row.job == job)]
        facts: Json = {
            "attempt": attempt,
            "owner": None if found["submitted"] else folder.owner()[0],
            "created": (found["created"] or {}).get("at"),
            "job": job or (live[0].job if live else None),
            "submitted": (found["submitted"] or {}).get("at"),
            "started": started,
            "cancel": found["cancel"],
            "outcome": found["outcome"],
            "queue": [_queue_row(row) for row in live],
            "ended": None,
            "vanished": False,
            "needs": {},
        }
        if facts["submitted"] is None:  # the client may have been killed after it had released the job
            free = [row.submitted_at for row in live if not row.held]
            facts["submitted"] = free[0] if free else (started or {}).get("at")
        if facts["outcome"] is None:
            for need in (found["created"] or {}).get("needs", ()):
                facts["needs"][need] = _need_state(site, need)
        if replicas:
            kept = (found["outcome"] or {}).get("replicas")
            facts["replicas"] = kept or (list(_replicas(folder.path)) if "replicas" in names else [])
        return facts


def _need_state(site: Site, app_id: str) -> str:
    try:
        return _need(site, app_id)[0]
    except OpError:
        return ""


def _queue_row(row: Row) -> Json:
    times = {"submitted_at": row.submitted_at, "start_at": row.start_at}
    dependency = "" if row.dependency == "(null)" else row.dependency
    return dict(times, job=row.job, state=row.state, reason=row.reason, held=row.held, dependency=dependency)


def _replicas(path: str) -> Iterator[Json]:
    """The replica files of an app, in the order of their roles' folders and numbers."""
    root = os.path.join(path, "replicas")
    for role in sorted(os.listdir(root)):
        with Folder(os.path.join(root, role)) as folder:
            names = [each for each in folder.names() if re.match(r"\d+\.json\Z", each)]
            for name in sorted(names, key=lambda each: int(each.split(".")[0])):
                found = folder.json(name)
                if found is not None:
                    yield found


class Ended:
    """The apps with an outcome, and the cache of their facts: `<job_dir>/index`.

    A line of it holds a JSON array [app id, stamp of the outcome file, key, number], a tab, and the facts. A
    line whose stamp does not fit any more is not used.
    """

    def __init__(self, site: Site, app_ids: Sequence[str]) -> None:
        self._site = site
        self._path = os.path.join(site.job_dir, "index")
        self.stamps: Dict[str, List[int]] = {}
        for app_id in app_ids:
            try:
                found = os.stat(os.path.join(site.apps, app_id, "outcome"))
            except OSError:
                continue
            self.stamps[app_id] = [found.st_ino, found.st_mtime_ns, found.st_size]
        self._lines: Dict[str, Tuple[List[Any], str]] = {}
        self._all = len(app_ids)
        self._known = 0
        if self.stamps:
            self._load()

    def _load(self) -> None:
        try:
            with open(self._path) as file:
                lines = file.read().splitlines()
        except (OSError, ValueError):
            return
        self._known = len(lines)
        for line in lines:
            head, tab, facts = line.partition("\t")
            try:
                header = json.loads(head)
                if tab and self.stamps.get(header[0], header[1]) == header[1]:
                    self._lines[header[0]] = (header, facts)
            except (ValueError, IndexError, TypeError, KeyError):
                continue

    def _line(self, app_id: str) -> Tuple[List[Any], str]:
        if app_id not in self._lines:
            facts = _read_app(self._site, app_id)
            if facts is None or facts["outcome"] is None:
                raise OpError("unknown-app", app_id)
            attempt = facts["attempt"]
            header = [app_id, self.stamps[app_id], attempt.get("key"), attempt.get("number", 0)]
            self._lines[app_id] = (header, json.dumps(facts))
        return self._lines[app_id]

    def facts(self, app_id: str, replicas: bool = False) -> Json:
        found: Json = json.loads(self._line(app_id)[1])
        if replicas:
            found["replicas"] = found["outcome"].get("replicas") or []
        return found

    def latest(self, keys: Sequence[Tuple[str, ...]]) -> Set[str]:
        """The ended apps with the highest number of each of these keys."""
        best: Dict[Tuple[str, ...], Tuple[int, str]] = {}
        wanted = set(keys)
        for app_id in self.stamps if wanted else ():
            try:
                _, _, key, number = self._line(app_id)[0]
            except OpError:
                continue
            if key is not None and tuple(key) in wanted:
                best[tuple(key)] = max(best.get(tuple(key), (0, "")), (number, app_id))
        return {app_id for _, app_id in best.values()}

    def save(self) -> None:
        """Write the cache anew when that spares later calls enough."""
        kept = {each: line for each, line in self._lines.items() if each in self.stamps}
        if len(kept) - self._known >= max(8, self._known // 10):
            replace(
                self._path, "".join(json.dumps(head) + "\t" + text + "\n" for head, text in kept.values())
            )


def wait(site: Site, op: Json) -> Json:
    """Block until one of the apps has ended, or has left the queue without an outcome, or time is over.

    starts: apps of which the start is waited for, too.
    """
    end, parent = time.monotonic() + float(op["seconds"]), os.getppid()
    pause, queue_pause, queue_at = 0.1, 2.0, time.monotonic()
    done: Dict[str, Json] = {}
    errors: Dict[str, str] = {}
    while True:
        began = time.monotonic()
        ended, missing = _finished(site, op["app_ids"], op.get("starts") or ())
        waiting = [each for each in op["app_ids"] if each not in ended and each not in missing]
        for app_id in ended:
            _add(done, errors, app_id, _read_app, site, app_id)
        if not done and not missing and waiting and began >= queue_at:
            queue_at, queue_pause = began + queue_pause, min(30.0, queue_pause * 1.5)
            try:
                found = look(site, waiting, errors)
                done = {each: facts for each, facts in found.items() if facts["vanished"] or facts["outcome"]}
            except OpError as error:
                if error.kind != "unreachable":
                    raise
                site.slurm = Slurm()  # and ask again later
        left = end - time.monotonic()
        if done or missing or errors or not waiting or left <= 0 or os.getppid() != parent:
            return {"apps": done, "missing": missing, "errors": errors}
        time.sleep(min(left, max(pause, 5 * (time.monotonic() - began))))
        pause = min(1.0, pause * 1.2)


def _finished(site: Site, app_ids: Sequence[str], starts: Sequence[str]) -> Tuple[List[str], List[str]]:
    """The apps that have ended, or started (of `starts`), and those without a directory."""
    ended, missing = [], []
    for app_id in app_ids:
        try:
            names = os.listdir(site.path(app_id))
        except FileNotFoundError:
            missing.append(app_id)
            continue
        if "outcome" in names:
            ended.append(app_id)
        elif "started" in names:
            with site.open(app_id) as folder:
                if app_id in starts or "job" not in (folder.json("started") or {"job": ""}):
                    ended.append(app_id)
    return ended, missing


def read(site: Site, op: Json) -> Json:
    """Blocks of the logs of replicas from the given offsets on, each no longer than its index reaches.

    `seconds`: how long to wait for anything new of a live app.
    """
    end, limit = time.monotonic() + float(op.get("seconds", 0)), int(op.get("limit", 1 << 20))
    with site.open(op["app_id"]) as folder:
        while True:
            live = "outcome" not in folder.names()  # first: then what is read below is all there is
            parts, room = [], limit
            for part in op["parts"]:
                parts.append(_block(folder.path, part, room))
                room -= len(parts[-1][0]) * 3 // 4
            if not live or any(log or index for log, index in parts) or time.monotonic() >= end:
                return {"parts": parts, "live": live}
            time.sleep(0.1)


def _block(path: str, part: Sequence[Any], limit: int) -> List[str]:
    """Base64 of a log from an offset on, and whole lines of its index from another one on."""
    base = os.path.join(path, "logs", checked(part[0]), str(int(part[1])))
    log = _bytes(base + ".log", int(part[2]), max(0, limit))
    raw = _bytes(base + ".index", int(part[3]), TAIL)
    index = raw[: raw.rfind(b"\n") + 1]
    if len(raw) == TAIL and index:  # there may be more: data that its lines do not cover yet waits
        last = int(index.splitlines()[-1].split()[0])
        log = log[: max(0, last - int(part[2]))]
    return [base64.b64encode(log).decode(), index.decode("utf-8", "replace")]


def _bytes(path: str, offset: int, limit: int) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            return file.read(limit)
    except FileNotFoundError:
        return b""


def events(site: Site, op: Json) -> Json:
    """All events of an app, by time, and whether there may be more."""
    with site.open(op["app_id"]) as folder:
        live = "outcome" not in folder.names()  # first: then what is read below is all there is
        found = list(_events(os.path.join(folder.path, "events")))
        for root, _, names in os.walk(os.path.join(folder.path, "replicas")):
            for name in sorted(names):
                if name.endswith(".events"):
                    found += _events(os.path.join(root, name))
    return {"events": sorted(found, key=lambda each: each["t"]), "live": live}


def _events(path: str) -> Iterator[Json]:
    """The whole lines of a file to which others append."""
    lines = _bytes(path, 0, -1).split(b"\n")
    for line in lines[:-1]:
        try:
            found = json.loads(line.decode("utf-8", "replace"))
        except ValueError:
            continue  # a disk that was full has cut it
        if isinstance(found, dict) and "t" in found:
            yield found


def texts(site: Site, op: Json) -> Json:
    """The last bytes of some files of an app; null for those that it does not have."""
    out: Dict[str, Optional[str]] = {}
    with site.open(op["app_id"]) as folder:
        names = folder.names()
        for name in op["names"]:
            if name not in TEXTS:
                raise OpError("state", "{!r} is none of {}".format(name, ", ".join(TEXTS)))
            out[name] = (folder.text(name) or "")[-TAIL:] if name in names else None
    return {"texts": out}


# Ends


def cancel(site: Site, op: Json) -> Json:
    """Cancel an app: one that has not started never will, a running one is signalled to end."""
    try:
        folder = site.open(op["app_id"])
    except OpError as error:
        if error.kind != "unknown-app":
            raise
        return {"is": "unknown"}
    with folder:
        message = str(op.get("message") or "cancelled")
        if "outcome" in folder.names():
            return {"is": "ended"}
        now = {"at": time.time(), "grace_s": op.get("grace_s"), "interrupt": bool(op.get("interrupt"))}
        full = False
        try:
            folder.link("started", json.dumps({"cancelled": True, "at": now["at"], "message": message}))
        except OSError as error:
            if error.errno not in FULL:
                raise
            full = True  # Slurm's own cancellation needs no file, and may make room
        started = folder.json("started")
        if started is None or "job" not in started:
            _cancel_jobs(site, folder)
            if started is not None and "cancelled" in started:
                _record(folder, "cancelled", message)
            return {"is": "pending"}
        if op.get("force"):
            now["force"] = True
        try:
            folder.write("cancel", json.dumps(dict(now, message=message)))
        except OSError as error:
            if error.errno not in FULL:
                raise
            full = True
        return {
            "is": _cancel_started(site, folder, str(started["job"]), message, full or bool(op.get("force")))
        }


def _cancel_started(site: Site, folder: Folder, job: str, message: str, force: bool) -> str:
    """Signal the conductor, or cancel a job that has none: it was requeued, or is suspended.

    A job that does not run must get no signal: scancel would try it again and again.
    """
    states = [row.state for row in site.slurm.rows(folder.app_id) if row.job == job and not row.is_over]
    if not states:
        return "ended"
    runs = states == ["RUNNING"]
    if not site.slurm.cancel([job], ["--signal=USR2", "--batch"] if runs and not force else []):
        return "ended"
    if states == ["PENDING"]:
        _record(folder, "cancelled", message)
        return "pending"
    return "running"


def withdraw(site: Site, op: Json) -> Json:
    """End an app of which nothing has run as skipped; False when it has started, or ended otherwise."""
    with site.open(op["app_id"]) as folder:
        if "outcome" in folder.names() and "started" not in folder.names():
            return {"withdrawn": False}
        folder.link("started", json.dumps({"withdrawn": True, "at": time.time()}))
        if "withdrawn" not in (folder.json("started") or {}):
            return {"withdrawn": False}
        _cancel_jobs(site, folder)
        _record(folder, "skipped", "withdrawn")
        return {"withdrawn": True}


def end(site: Site, op: Json) -> Json:
    """Record the outcome of an app that cannot do so itself any more."""
    with site.open(op["app_id"]) as folder:
        won = folder.link("outcome", json.dumps(op["outcome"]))
        folder.unlink("secrets")
        if won and op["outcome"].get("state") == "lost":
            _cancel_jobs(site, folder)  # Slurm may have queued it again
        return {"won": won}


def remove(site: Site, op: Json) -> Json:
    """Remove an ended app. With `keep` its outcome stays, in place of those of the job's earlier attempts."""
    try:
        folder = site.open(op["app_id"])
    except OpError as error:
        if error.kind != "unknown-app":
            raise
        return {"removed": False}
    with folder:
        if "outcome" not in folder.names():
            raise OpError("live", f"{folder.app_id} has not ended", state=_state(folder))
        if op.get("keep"):
            _strip(folder)
            if _state(folder) != "skipped":  # plans judge the attempt before that one
                _remove_earlier(site, folder.app_id)
        else:
            _put_away(site, folder)
        return {"removed": True}


def _strip(folder: Folder) -> None:
    """Leave the record of an app and of its end, and nothing else."""
    outcome = folder.json("outcome") or {}
    if "removed" not in outcome:
        folder.write("outcome", json.dumps(dict(outcome, removed=time.time())))
    for name in folder.names() - KEPT:
        path = os.path.join(folder.path, name)
        if os.path.isdir(path) and not os.path.islink(path):
            remove_tree(path)
        else:
            folder.unlink(name)


def _remove_earlier(site: Site, app_id: str) -> None:
    """Remove what is kept of earlier attempts of the same job: `<job>-<number>-<hash>`."""
    job, number, scope = ("", "", *app_id.rsplit("-", 2))[-3:]
    for other in site.app_ids() if number.isdigit() else ():
        its_job, its_number, its_scope = ("", "", *other.rsplit("-", 2))[-3:]
        if (its_job, its_scope) != (job, scope) or not its_number.isdigit():
            continue
        if int(its_number) < int(number):
            try:
                with site.open(other) as folder:
                    if "removed" in (folder.json("outcome") or {}):
                        _put_away(site, folder)
            except OpError:
                continue  # another client has removed it


def sweep(site: Site, op: Json) -> Json:
    """Complete interrupted removals; cancel jobs that can never do anything; remove dead temporary files."""
    swept = []
    for path in site.hidden():
        try:
            is_dead = ".gone-" in path or time.time() - os.lstat(path).st_mtime > STALE_S
        except FileNotFoundError:
            continue
        if is_dead:
            remove_tree(path)
            swept.append("directory " + os.path.basename(path))
    app_ids = site.app_ids()
    for app_id in app_ids:
        swept += ["directory " + app_id] if _sweep_app(site, app_id) else []
    dead = [row.job for row in site.slurm.rows() if _is_superfluous(site, row)]
    site.slurm.cancel(dead)
    return {"removed": swept + ["job " + job for job in dead]}


def _sweep_app(site: Site, app_id: str) -> bool:
    try:
        folder = site.open(app_id)
    except OpError:
        return False
    with folder:
        for name in folder.names():
            if name.startswith(".") and folder.age_s(name) > STALE_S:
                folder.unlink(name)
        try:
            if "removed" in (folder.json("outcome") or {}):
                _strip(folder)  # it was interrupted
                return False
            started = folder.json("started")
            if started is None or not is_removed(started):
                return False
            _dismantle(site, folder)
        except OpError as error:
            if error.kind not in ("state", "reserved"):
                raise
            return False
        return True


def _is_superfluous(site: Site, row: Row) -> bool:
    """Whether a job has not started, and would find its app removed, ended, or another job's."""
    if row.state != "PENDING" or not NAME.match(row.name) or not site.scripts(row):
        return False
    try:
        folder = site.open(row.name)
    except OpError:
        return True
    with folder:
        names = folder.names()
        if not row.of(folder, folder.text("id") or "") or "outcome" in names:
            return True
        started = folder.json("started")
        if started is not None:
            return started.get("job") != row.job
        return row.held and "job" in names and folder.text("job") != row.job


# Output folders


def outputs(site: Site, op: Json) -> Json:
    try:
        return {"outputs": sorted(name for name in os.listdir(site.outputs) if NAME.match(name))}
    except FileNotFoundError:
        return {"outputs": []}


def make_output(site: Site, op: Json) -> Json:
    path = os.path.join(site.outputs, checked(op["name"]))
    os.makedirs(path, 0o700, exist_ok=True)
    return {"folder": path}


def remove_output(site: Site, op: Json) -> Json:
    """Remove an output folder. Raises OpError live while an app has it in its variables or arguments."""
    path = os.path.join(site.outputs, checked(op["name"]))
    if not os.path.isdir(path):
        return {"removed": False}
    word = re.compile(re.escape(json.dumps("/outputs/" + op["name"])[1:-1]) + r"(?![\w.+@-])")
    for app_id in site.app_ids():
        with site.open(app_id) as folder:
            if "outcome" not in folder.names() and word.search(folder.text("app.json") or ""):
                raise OpError("live", f"{app_id} uses it", app_id=app_id)
    gone = os.path.join(site.outputs, ".gone-{}-{}".format(op["name"], token()))
    os.rename(path, gone)
    remove_tree(gone)
    return {"removed": True}


OPS: Dict[str, Callable[[Site, Json], Json]] = {
    "hello": hello,
    "reserve": reserve,
    "create": create,
    "start": start,
    "abort": abort,
    "observe": observe,
    "wait": wait,
    "read": read,
    "events": events,
    "texts": texts,
    "cancel": cancel,
    "withdraw": withdraw,
    "end": end,
    "remove": remove,
    "sweep": sweep,
    "outputs": outputs,
    "make_output": make_output,
    "remove_output": remove_output,
}


def main() -> None:
    request = json.loads(sys.stdin.buffer.read().decode("utf-8"))
    sys.stdout.write(json.dumps(answer(request)) + "\n")


if __name__ == "__main__":
    main()
