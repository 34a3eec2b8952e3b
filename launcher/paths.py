"""The folders of launcher, all below LAUNCHER_HOME and named only here, and the identity of that folder.

Plain `os.path` rather than pathlib: every command imports this, and pathlib costs milliseconds.
"""

from __future__ import annotations

import errno
import os
import stat
import sys

from launcher.errors import StateError

_FILES_OF_A_DATABASE = 4  # the file, -wal, -shm, and its folder while it is made

ELSEWHERE = "set LAUNCHER_HOME to a folder on a local disk that you can write"

IMPORT_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder that `launcher` is imported from, for child processes without the user's settings."""


def program(module: str) -> str:
    """The text of the program that runs `main` of a module of launcher.

    It looks for no garbage among the modules, which stay: that would take a tenth of the time to load them.
    Then it forgets the names of the files in the folders of modules.
    """
    load = f"sys.path.insert(0, {IMPORT_ROOT!r}); from {module} import main; sys.path_importer_cache.clear()"
    return f"import gc, sys; gc.disable(); {load}; gc.freeze(); gc.enable(); main()"


def home() -> str:
    """LAUNCHER_HOME, else $XDG_STATE_HOME/launcher, else ~/.local/state/launcher. Absolute."""
    given = os.environ.get("LAUNCHER_HOME")
    if given:
        return os.path.abspath(os.path.expanduser(given))
    state = xdg_folder("XDG_STATE_HOME", os.path.join("~", ".local", "state"))
    return os.path.join(os.path.abspath(state), "launcher")


def xdg_folder(variable: str, default: str = "") -> str:
    """Return the folder that a variable names, else the default, each with the home in place of `~`.

    A relative folder would depend on the current one, and is ignored.

    Source: XDG Base Directory Specification, "Basics".
    """
    given = os.path.expanduser(os.environ.get(variable, ""))
    return given if os.path.isabs(given) else os.path.expanduser(default)


def ledger() -> str:
    """The SQLite file with job keys, attempts and outcomes."""
    return os.path.join(home(), "ledger.db")


def home_token() -> str:
    """The file with the identity of this state folder; see `token`."""
    return os.path.join(home(), "token")


def locks() -> str:
    """Folder of the locks that applies take, one per project and target."""
    return os.path.join(home(), "locks")


def outbox() -> str:
    """Folder of the outcomes that are still to be sent; missing until a job has a receiver."""
    return os.path.join(home(), "notify")


def local() -> str:
    """Folder of the local scheduler: its apps and their output folders."""
    return os.path.join(home(), "local")


def local_apps() -> str:
    """Folder of the apps of the local scheduler, one folder for each."""
    return os.path.join(local(), "apps")


def local_app(app_id: str) -> str:
    """Folder of one app of the local scheduler."""
    return os.path.join(local_apps(), app_id)


def slots() -> str:
    """Folder of the tickets of apps that share this machine: $LAUNCHER_SLOTS, else below LAUNCHER_HOME."""
    given = os.environ.get("LAUNCHER_SLOTS")
    return os.path.abspath(os.path.expanduser(given)) if given else os.path.join(home(), "slots")


def runtime() -> str:
    """Folder that all state folders of this user on this machine share: $XDG_RUNTIME_DIR/launcher, else
    /tmp/launcher-UID."""
    given = xdg_folder("XDG_RUNTIME_DIR")
    return os.path.join(given, "launcher") if given else f"/tmp/launcher-{os.geteuid()}"


def workspaces() -> str:
    """Folder of the manifests of workspaces: which files each held, one file per digest."""
    return os.path.join(home(), "workspaces")


def ensure(folder: str) -> str:
    """Create `folder` below LAUNCHER_HOME, private to the user (0700), and return it.

    Folders that exist keep their mode. LAUNCHER_HOME and the folders between it and `folder` must be this
    user's own and no symbolic links: otherwise another user could read or replace their contents.

    Raises StateError when a folder is not the user's own, or cannot be made: read-only, full, a file in the
    way.
    """
    root = home()
    if os.path.relpath(folder, root).split(os.sep)[0] != os.pardir:
        return ensure_private(root, folder, "LAUNCHER_HOME")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        raise unusable(error, folder) from error
    return folder


def ensure_private(root: str, folder: str, variable: str) -> str:
    """Create a private folder like `ensure`, below a root that the environment variable `variable` gives."""
    below = os.path.relpath(folder, root).split(os.sep)
    try:
        root.encode()
    except UnicodeEncodeError:  # records hold paths of it
        hint = of_encoding(f"set {variable} to another folder")
        raise _unsafe(root, "its path is no UTF-8 text", hint) from None
    try:
        if _own(root, root, variable) & 0o022:
            from shlex import quote

            hint = f"chmod go-w {quote(root)}, or set {variable} to {root}/launcher"
            raise _unsafe(root, "other users can write to it", hint)
        path = root
        for name in below:
            if name != os.curdir:
                path = os.path.join(path, name)
                _own(path, root, variable)
    except OSError as error:
        raise unusable(error, folder) from error
    return folder


def _own(path: str, root: str, variable: str) -> int:
    """Make the folder `path` if missing; return its mode. StateError when another user may control it."""
    try:
        _make(path)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _make(path)  # retried only once, since below /proc a folder cannot be made although its parent exists
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode):
        target = os.path.realpath(path)
        what = "it is a symbolic link"
        if path == runtime():  # below runtime() the variable names another folder
            raise _unsafe(path, what, f"remove it, or set {variable} to a folder of your own")
        if path == root:
            raise _unsafe(path, what, f"set {variable} to where it leads: {target}")
        raise _unsafe(path, f"{what} to {target}", "replace it by the folder that it leads to")
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    if found.st_uid != os.geteuid():
        owner = f"user {found.st_uid} owns it, and this is user {os.geteuid()}"
        raise _unsafe(path, owner, f"set {variable} to a folder of your own")
    return found.st_mode


def _make(path: str) -> None:
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass


def _unsafe(path: str, why: str, hint: str) -> StateError:
    return StateError(f"cannot keep state in {path}: {why}", hint=hint)


def unusable(error: OSError, path: str) -> StateError:
    """Return the error for a state folder that cannot be written."""
    hint = ELSEWHERE
    of_slots = slots() if os.environ.get("LAUNCHER_SLOTS") else ""
    for variable, root in (("XDG_RUNTIME_DIR", runtime()), ("LAUNCHER_SLOTS", of_slots)):
        if root and f"{path}/".startswith(f"{root}/"):
            hint = ELSEWHERE.replace("LAUNCHER_HOME", variable)
    return StateError(f"cannot write {path}: {error.strerror or error}", hint=remedy(error, hint))


def of_state_folder(error: OSError) -> StateError | None:
    """The error for a file of the state folder that cannot be used, as on a disk that fails; else None."""
    name = error.filename
    if not isinstance(name, str) or not f"{name}/".startswith(f"{home()}/"):
        return None
    return StateError(f"cannot use {name}: {error.strerror}", hint=remedy(error))


def remedy(error: OSError, otherwise: str = ELSEWHERE) -> str:
    """Return the hint for a system error: how to raise a limit that is its cause, else `otherwise`."""
    return _REMEDIES.get(error.errno or 0, otherwise)


def remedy_in(text: str) -> str | None:
    """Return the hint for the output of a command that names a system error; None without one."""
    return next((hint for number, hint in _REMEDIES.items() if os.strerror(number) in text), None)


_FREE_SPACE = "free some space: `df -h` shows where; `launcher gc --dry-run` shows what launcher can remove"
_REMEDIES = {
    errno.EMFILE: "this process may open no more files: raise its limit with `ulimit -n 4096`",
    errno.ENFILE: (
        "this machine may open no more files: raise fs.file-max, or end programs that hold many open"
    ),
    errno.ENOMEM: "the memory that this process may use is full: end other programs, or raise its limit",
    errno.ENOSPC: _FREE_SPACE,
    errno.EDQUOT: _FREE_SPACE,
}


def of_encoding(otherwise: str) -> str:
    """Return the hint for a path that is no UTF-8 text: about the locale where that is the cause."""
    encoding = sys.getfilesystemencoding()
    if encoding == "utf-8":
        return otherwise
    return f"set PYTHONUTF8=1: in this locale, Python takes names of files for {encoding}"


def out_of_files() -> OSError | None:
    """Return the error if the limit of open files does not allow to open a few more files.

    For callers of SQLite, which opens a database, its -wal and its -shm, closes them all when one fails, and
    does not report the reason.
    """
    opened = []
    try:
        for _ in range(_FILES_OF_A_DATABASE):
            opened.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error if error.errno in (errno.EMFILE, errno.ENFILE) else None
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return None


# -- the identity of the state folder ------------------------------------------------------------------------


def token() -> str:
    """Return the token; "" before the first command that changes something and so makes the token.

    Raises StateError when the file cannot be read.
    """
    path = home_token()
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # no wait for the writer of a pipe
        try:
            found = os.read(fd, 64).decode(errors="replace").strip()
        finally:
            os.close(fd)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise StateError(f"cannot read {path}: {error.strerror or error}") from error
    return found if found.isascii() and found.isalnum() else ""


def make_token() -> str:
    """Return the token, made when it is missing. Processes that race to make it get the same one.

    Raises StateError when it cannot be written.
    """
    known = token()
    if known:
        return known
    ensure(home())
    path = home_token()
    beside = f"{path}.{os.getpid()}.new"
    try:
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, f"{os.urandom(5).hex()}\n".encode())
        finally:
            os.close(fd)
        try:
            os.link(beside, path)
        except FileExistsError:
            if not token():  # damaged: empty, or no token
                os.replace(beside, path)
        finally:
            if os.path.lexists(beside):
                os.unlink(beside)
    except OSError as error:
        raise unusable(error, path) from error
    return token()


def actor() -> str:
    """The user of this process, as `user@host`. A user without a name is a number."""
    import pwd

    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container may run as a user without a passwd entry
        user = str(os.geteuid())
    return f"{user}@{os.uname().nodename}"
