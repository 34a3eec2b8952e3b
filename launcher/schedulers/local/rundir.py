"""The folder of an app: every path in it, and the small files for requests of clients to the app's holder.

::

    <state folder>/apps/<app id>/
        lock            held by the client that submits the app, then by the process that holds it; else free
        attempt.json    the reserved attempt
        request.json    the request to the supervisor
        events.jsonl    the events of the app; only the process that holds the lock writes it
        cancel          a request to stop the app: the user, `interrupt USER` if attached to it, and
                        `grace SECONDS` if given
        decision        for an app that waits for others: a link to `start` or `withdrawn`, the first decision
        logs-removed    an empty file: `gc --logs` has removed the logs
        scratch/        LAUNCHER_SCRATCH
        logs/<role>/<k>/{combined.log,index}
                        output of a replica, and an index of streams and times; of a log that outgrew a part
                        of `log_max_mb` also {combined.log,index}.<number>
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SCHEDULERS = ("local_cwd", "local_dir")
"""The schedulers whose apps share a state folder."""

EVENTS = "events.jsonl"
STDOUT = "stdout.log"
STDERR = "stderr.log"
COMBINED = "combined.log"
INDEX = "index"
"""16 bytes a record, little endian: how many bytes the replica had printed, then time in ns << 2 | kind (0
stdout, 1 stderr, 2 restart). The output from there up to the next record has that time and kind.
A record is written before its data, so data without a record cannot be seen."""

LOGS_REMOVED = "logs-removed"
ERROR_FILE = "error.json"
"""The error file of a replica, beside its logs; TORCHELASTIC_ERROR_FILE names it."""

_KIND, _FILE = 0o170000, 0o100000  # S_IFMT and S_IFREG of <sys/stat.h>
GRACE, INTERRUPT = "grace ", "interrupt "
START, WITHDRAWN = "start", "withdrawn"
"""The decisions about an app that waits for others."""


def log_file(folder: str, name: str, segment: int = 0) -> str:
    """The path of COMBINED or INDEX of one segment of a replica's log. Segment 0, the beginning, is the whole
    of an unbounded log, and is never removed from a bounded log."""
    return os.path.join(folder, f"{name}.{segment}" if segment else name)


def events(app_dir: str) -> str:
    return os.path.join(app_dir, EVENTS)


def cancel(app_dir: str) -> str:
    return os.path.join(app_dir, "cancel")


def decision_file(app_dir: str) -> str:
    return os.path.join(app_dir, "decision")


def scratch(app_dir: str) -> str:
    return os.path.join(app_dir, "scratch")


def cancellation(app_dir: str) -> "dict[str, Any] | None":
    """The request to stop the app, as the fields of a `cancel` event; None where there is none.

    `by` is the first client, `grace_s` the shortest grace period of all clients, if one was given. Damaged
    text counts, too: the file is what asks. A folder or a pipe in its place does not.
    """
    try:
        fd = os.open(cancel(app_dir), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe may have no writer
    except OSError:
        return None
    try:
        data = os.read(fd, 4096)
        if not data and os.fstat(fd).st_mode & _KIND != _FILE:
            return None
    except OSError:  # a folder
        return None
    finally:
        os.close(fd)
    lines = data.decode(errors="replace").splitlines()
    by = lines[0].strip() if lines else ""
    found: dict[str, Any] = {"by": by.removeprefix(INTERRUPT)}
    if by.startswith(INTERRUPT):
        found["interrupt"] = True
    if graces := [grace for line in lines if (grace := _grace_s(line)) is not None]:
        found["grace_s"] = min(graces)
    return found


def _grace_s(line: str) -> "float | None":
    """The grace period in a line of the cancel file; None for another or a damaged line."""
    try:
        found = float(line[len(GRACE) :]) if line.startswith(GRACE) else -1.0
    except ValueError:
        return None
    return found if found >= 0 else None


def decide(app_dir: str, what: str) -> str:
    """Decide whether a waiting app starts or is withdrawn, unless it is decided; returns the decision.

    Raises OSError where the folder cannot be written.
    """
    path = decision_file(app_dir)
    try:
        os.symlink(what, path)
    except FileExistsError:
        return os.readlink(path)
    return what


def decision(app_dir: str) -> str:
    """Return the decision about a waiting app; "" before it is made."""
    try:
        return os.readlink(decision_file(app_dir))
    except OSError:
        return ""


def has_no_logs(app_dir: str) -> bool:
    """Whether the logs of an app were removed while the rest stayed."""
    return os.path.exists(os.path.join(app_dir, LOGS_REMOVED))


def make_folders(path: str, made: "list[str]", *, has_parent: bool = False) -> bool:
    """Make a folder and its missing parents, and add those that were made to `made`, parents first.

    Returns whether the folder itself was made. Raises OSError, with `made` complete.
    """
    try:
        os.mkdir(path)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
        return False
    except FileNotFoundError:
        if has_parent:
            raise  # /proc is there and takes no folders
        make_folders(os.path.dirname(path), made)
        return make_folders(path, made, has_parent=True)
    made.append(path)
    return True
