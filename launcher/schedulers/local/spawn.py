"""Start one replica: find the executable, compose its environment, spawn it with pipes for its output."""

import _signal  # type: ignore[import-not-found]  # `signal` loads enum and re
import marshal
import os
import resource

from launcher.schedulers.loop import LOCK_FD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


ALL_SIGNALS = [n for n in _signal.valid_signals() if n not in (_signal.SIGKILL, _signal.SIGSTOP)]


class SpawnError(Exception):
    """A replica cannot be started; the text says why. `role` and `k` identify it, once known."""

    def __init__(self, message: str, argv: "list[str] | None" = None) -> None:
        super().__init__(message)
        self.argv = argv or []
        self.role: str | None = None
        self.k: int | None = None


def pack(replica: "Mapping[str, Any]", common: "Mapping[str, str]") -> bytes:
    """Pack the start request of a replica into a tenth of the memory of its objects.

    `common` is an environment that differs little from its own, such as that of the role's first replica.
    """
    env = replica["env"]
    own = {name: value for name, value in env.items() if common.get(name) != value}
    missing = [name for name in common if name not in env]
    return marshal.dumps((list(replica["argv"]), own, missing, replica["cwd"]))


def unpack(packed: bytes, common: "Mapping[str, str]") -> "tuple[list[str], dict[str, str], str]":
    """Unpack the command, environment and working directory."""
    argv, own, missing, cwd = marshal.loads(packed)
    env = {**common, **own}
    for name in missing:
        del env[name]
    return argv, env, cwd


def set_variable(
    packed: bytes, common: "Mapping[str, str]", name: str, value: "str | None", *, instead_of: str
) -> bytes:
    """Replace a variable of a packed request that has the value `instead_of`; None removes it."""
    argv, env, cwd = unpack(packed, common)
    if env.get(name) != instead_of:
        return packed
    if value is None:
        del env[name]
    else:
        env[name] = value
    return pack({"argv": argv, "env": env, "cwd": cwd}, common)


class Spawner:
    """Starts replicas from packed requests, each in its own session, with every signal at its default, the
    user's limit of open files, and /dev/null as stdin.

    A replica's environment is the inherited one, then its own; the inherited PATH comes behind its own PATH.
    """

    def __init__(self, inherited: "Mapping[str, str]") -> None:
        self.inherited = inherited
        self._last_wanted: tuple[str, str, str] | None = None
        self._last_found = ""
        self._soft, self._hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.max_files = 1 << 20 if self._hard == resource.RLIM_INFINITY else self._hard
        try:
            self._allow(self.max_files)
        except (OSError, ValueError):  # macOS has a lower limit
            self.max_files = self._soft

    def check(self, packed: bytes, common: "Mapping[str, str]") -> None:
        """Raise SpawnError unless the working directory and the executable are there."""
        argv, env, cwd = unpack(packed, common)
        self._find(argv, self._environment(env, 0), cwd)

    def spawn(self, packed: bytes, common: "Mapping[str, str]", restart: int) -> "tuple[int, int, int]":
        """Start a replica; returns its pid and the read ends of its stdout and stderr. Raises SpawnError."""
        argv, own, cwd = unpack(packed, common)
        env = self._environment(own, restart)
        path = self._find(argv, env, cwd)
        fds: list[int] = []
        _enter(cwd, argv)
        try:
            fds += os.pipe()
            fds += os.pipe()
            os.set_blocking(fds[0], False)  # the reading end only; programs expect blocking writing ends
            os.set_blocking(fds[2], False)
            pid = self._exec(path, argv, env, fds[1], fds[3])
        except (OSError, ValueError) as error:  # ValueError: NUL bytes, or text without an encoding
            for fd in fds:
                os.close(fd)
            raise SpawnError(f"{argv[0]}: {_why(error)}", argv) from error
        os.close(fds[1])
        os.close(fds[3])
        return pid, fds[0], fds[2]

    def run(self, packed: bytes, common: "Mapping[str, str]", argv: "list[str]", restart: int) -> int:
        """Start another command like the replica, without output; returns its pid. Raises SpawnError."""
        _, own, cwd = unpack(packed, common)
        env = self._environment(own, restart)
        path = find_executable(argv, env.get("PATH", os.defpath), cwd)
        _enter(cwd, argv)
        try:
            return self._exec(path, argv, env, 1, 1)  # standard output of the supervisor is /dev/null
        except (OSError, ValueError) as error:
            raise SpawnError(f"{argv[0]}: {_why(error)}", argv) from error
        finally:
            os.chdir("/")

    def _find(self, argv: "list[str]", env: "Mapping[str, str]", cwd: str) -> str:
        """As `find_executable`, with the last result cached: replicas mostly run the same executable."""
        wanted = (argv[0], env.get("PATH", os.defpath), cwd)
        if wanted != self._last_wanted or not os.access(self._last_found, os.X_OK):
            self._last_found = find_executable(argv, wanted[1], cwd)
            self._last_wanted = wanted
        return self._last_found

    def _exec(self, path: str, argv: "list[str]", env: "dict[str, str]", out: int, err: int) -> int:
        self._allow(self._soft)  # the child inherits the limit now; files open here stay open
        try:
            return os.posix_spawn(
                path,
                argv,
                env,
                file_actions=[
                    # Close the lock immediately: the supervisor may be killed before the exec.
                    (os.POSIX_SPAWN_CLOSE, LOCK_FD),
                    (os.POSIX_SPAWN_DUP2, out, 1),
                    (os.POSIX_SPAWN_DUP2, err, 2),
                ],
                setsid=True,
                setsigmask=(),
                setsigdef=ALL_SIGNALS,
            )
        finally:
            self._allow(self.max_files)

    def _allow(self, files: int) -> None:
        if self._soft != self.max_files:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, self._hard))

    def _environment(self, env: "Mapping[str, str]", restart: int) -> "dict[str, str]":
        whole = {**self.inherited, **env, "LAUNCHER_RESTART": str(restart)}
        paths = [p for p in (env.get("PATH"), self.inherited.get("PATH")) if p]
        if paths:
            whole["PATH"] = os.pathsep.join(paths)
        return whole


def _enter(cwd: str, argv: "list[str]") -> None:
    """Change to the working directory, which may be gone since it was checked. Raises SpawnError."""
    try:
        os.chdir(cwd)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SpawnError(f"no such working directory: {cwd}", argv) from error
    except OSError as error:
        raise SpawnError(f"cannot enter the working directory {cwd}: {error.strerror}", argv) from error


def find_executable(argv: "list[str]", path: str, cwd: str) -> str:
    """The executable of a replica: argv[0] in its own PATH, relative to its own folder. Raises SpawnError."""
    if not os.path.isdir(cwd):
        raise SpawnError(f"no such working directory: {cwd}", argv)
    name = argv[0]
    if not name:
        raise SpawnError("the entrypoint is empty", argv)
    if "/" in name:
        candidates = [os.path.join(cwd, name)]
    else:
        candidates = [os.path.join(cwd, folder, name) for folder in path.split(os.pathsep)]
    found = [each for each in candidates if os.path.isfile(each)]
    for each in found:
        if os.access(each, os.X_OK):
            return each
    if found:
        raise SpawnError(f"not executable: {found[0]}", argv)
    where = "" if "/" in name else f" in PATH ({path})"
    remedy = ""
    if any(char.isspace() for char in name):  # a whole command line
        from launcher.specs.text import split_command

        if split := split_command(name):
            remedy = f"; the entrypoint is one program, its arguments are `args`: {split}"
    raise SpawnError(f"no such executable: {name}{where}{remedy}", argv)


def _why(error: "OSError | ValueError") -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error)
