"""Errors of an engine and of the connection to it: what failed, its cause, the remedy.

`refusal` makes an error from the status and the text with which the engine refuses a request. `broken` makes
an error from an exception of the standard library.
"""

from __future__ import annotations

import errno
import re

from launcher.errors import SchedulerError, UnreachableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


SHAPES = "want unix:///path/to/docker.sock, tcp://host:2376 or ssh://user@host"


class EngineError(SchedulerError):
    """The engine refused or failed. `status` is the HTTP status of its answer, 0 when there was none."""

    def __init__(self, message: str, *, hint: str | None = None, status: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.status = status

    @property
    def cause(self) -> str:
        """The engine's text, without launcher's description of the request."""
        return str(self).partition(": ")[2] or str(self)


class EngineUnreachable(EngineError, UnreachableError):
    """There is no engine, it did not answer in time, or the connection to it broke."""


class ConnectionBroke(EngineUnreachable):
    """The connection ended before the engine had answered: it may have carried out the request."""


class EngineGone(EngineUnreachable):
    """A stream ended because the engine went away: the rest of the stream is unknown."""


class EngineSilent(EngineGone):
    """A stream was silent for so long that its other end may be gone: it is opened again."""


class EngineRefused(EngineError):
    """The engine has answered, and has not carried out the request."""


class EngineUnsupported(EngineRefused):
    """An engine of another maker, which launcher was not tested with."""


class NonsenseAnswer(EngineRefused):
    """The response is not one of a Docker engine."""


class NotFound(EngineRefused):
    """There is no such container, network or volume."""


class ImageNotFound(NotFound):
    """There is no such image, here or (when it was pulled) in its registry."""


class Conflict(EngineRefused):
    """The object is in a state that does not allow the request."""


class NameTaken(Conflict):
    """A container of this name exists."""


class BuildFailed(EngineRefused):
    """An image could not be built. `output` has the last lines that the build wrote."""

    def __init__(self, image: str, cause: str, output: Sequence[str]) -> None:
        shown = "".join(f"\n  {line}" for line in output)
        super().__init__(f"cannot build {image}: {cause_of(cause)}{shown}")
        self.output = tuple(output)


_PASSING = frozenset({500, 502, 503, 504})
_OTHER_PORT = "something else listens on that port: choose another, or `ports=ephemeral`"
_LOG_IN = "log in to the registry first: docker login"
_HINTS = {
    "IPv4 address pool": "remove networks that nothing uses: docker network prune",
    "no space left on device": "free some space on the engine's disk; `docker system df` shows what takes it",
    "dial tcp": (
        "the engine cannot reach the registry; see whether the image's name and the network are right"
    ),
}
"""Part of the text of a refusal that may pass → the remedy."""
_FINAL = {
    "could not select device driver": "this engine has no GPU support: install the NVIDIA container toolkit",
    "port is already allocated": _OTHER_PORT,
    "address already in use": _OTHER_PORT,
    "bind source path does not exist": "bind mounts need a folder that exists on the engine's machine",
    "Minimum memory limit": "give the role's resource more memMB",
    "Range of CPUs": "give the role's resource no more cpu than the engine's machine has",
    "docker login": "check the image's name; a private image needs `docker login` first",
    "no basic auth credentials": _LOG_IN,
    "unauthorized": _LOG_IN,
    "HTTP request to an HTTPS server": "the engine wants TLS: set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH",
    "OCI runtime": None,
    "executable file not found": None,
    ": already exists": None,
    "in the middle of this start": None,
    "access denied": None,
    "manifest unknown": None,
}
"""Part of the text of a refusal that the request causes, though its status may be 500 → the remedy."""
_RESTARTED = "the engine may have been stopped or restarted: when `docker version` answers, try again"
# What the engine puts before the cause when a container cannot start, from the outside in.
_WRAPPINGS = re.compile(
    r"^(?:Error response from daemon: |failed to create (?:shim|task)[^:]*: |failed to create shim task: "
    r"|OCI runtime (?:create|exec) failed: |exec failed: |(?:\S*runc) create failed: "
    r"|container_linux\.go:\d+: "
    r"|driver failed programming external connectivity on endpoint \S+ \(\w+\): "
    r"|starting container process caused: |unable to start container process: )+"
)


_HALF_STARTED = re.compile(r"(?:task [0-9a-f]{64}: already exists|id already in use)\Z")
_IN_THE_MIDDLE = "in the middle of this start"


def refusal(status: int, text: str, doing: str) -> EngineError:
    """The error for a response of `status` with the engine's `text`; `doing` as in "start trainer-0"."""
    cause = cause_of(text)
    return _class_of(status, text)(f"cannot {doing}: {cause}", hint=_hint(status, text), status=status)


def may_pass(error: EngineError) -> bool:
    """Whether the same request may succeed later, so that an idempotent one is made again.

    It may when there is no engine, or when the engine itself fails: it stops, starts or is full, or for a
    moment does not find an existing volume. A refusal because of the request is final.
    """
    if isinstance(error, (EngineUnreachable, NonsenseAnswer)):
        return True
    if isinstance(error, NotFound):
        return "no such volume" in str(error).lower()
    return error.status in _PASSING and not any(cause in str(error) for cause in _FINAL)


def explained(error: EngineError, text: str) -> SchedulerError:
    """The error with a text that names its role. An error that may pass stays an EngineError of its class."""
    if isinstance(error, EngineUnreachable):
        return error
    if may_pass(error):
        return type(error)(text, hint=error.hint, status=error.status)
    return SchedulerError(text, hint=error.hint)


def is_half_started(error: EngineError) -> bool:
    """Whether the engine went away in the middle of this start, which it can neither undo nor complete."""
    return _IN_THE_MIDDLE in str(error)


def cause_of(text: str) -> str:
    """The engine's text on one line, without the words that its layers put around the cause.

    After a stop or SIGKILL an engine finds a half-finished start of its last run, and refuses to complete it.
    """
    line = _WRAPPINGS.sub("", " ".join(text.split())).removesuffix(": unknown").removesuffix(".")
    if _HALF_STARTED.match(line):
        return f"the engine was killed or restarted {_IN_THE_MIDDLE} ({line})"
    return line or "the engine did not say why"


def _class_of(status: int, text: str) -> type[EngineError]:
    lower = text.lower()
    if "unrecognized image id" in lower:
        return ImageNotFound  # status 500: another client removed it between two steps of this request
    if "is not running" in lower:
        return Conflict  # status 500 for a command in a container that is being removed
    if status in (0, 400, 404):
        image = "no such image" in lower or "manifest" in lower or "pull access denied" in lower
        if image or status == 404:
            return ImageNotFound if image else NotFound
    if status == 409:
        return NameTaken if "name" in lower and "in use" in lower else Conflict
    if status == 403 and "endpoints" in lower:
        return Conflict  # the engine's status for a network in use
    return EngineRefused


def _hint(status: int, text: str) -> str | None:
    if status == 400 and "too new" in text:
        return "unset DOCKER_API_VERSION, or set it to what the engine understands"
    if status == 400 and "too old" in text:
        return "unset DOCKER_API_VERSION, or use a newer launcher"
    return next((hint for part, hint in {**_HINTS, **_FINAL}.items() if hint and part in text), None)


def broken(host: str, error: BaseException, doing: str) -> EngineError:
    """The error for a connection that could not be made, or that broke."""
    where, kind = f"the Docker engine at {host}", type(error).__name__
    said = " ".join(str(error).split()) or kind
    if isinstance(error, PermissionError):
        return EngineUnreachable(f"access to {where} is denied: {error.strerror or error}", hint=_DENIED)
    if isinstance(error, FileNotFoundError):
        return EngineUnreachable(f"there is no Docker engine at {host}: no such socket", hint=_START)
    if isinstance(error, ConnectionRefusedError):
        return EngineUnreachable(f"there is no Docker engine at {host}: nothing listens there", hint=_START)
    if isinstance(error, OSError) and (why := _unreached(error)):
        return EngineUnreachable(f"cannot reach {where}: {why}", hint=_START)
    if isinstance(error, TimeoutError):
        return EngineUnreachable(f"{where} did not answer in time (cannot {doing})", hint=_SLOW)
    if "SSL" in kind:
        return EngineUnreachable(f"the TLS handshake with {where} failed: {said}", hint=TLS)
    how = "it ended in the middle of an answer" if kind in _CUT_OFF else said
    return ConnectionBroke(f"the connection to {where} broke: {how} (cannot {doing})", hint=_RESTARTED)


def _unreached(cause: OSError) -> str:
    """The reason why no connection was made; "" where one may have been made."""
    from socket import EAI_NONAME, gaierror

    if isinstance(cause, gaierror):
        return "no such host" if cause.errno == EAI_NONAME else str(cause.strerror)
    if cause.errno == errno.EAGAIN:
        return "too many clients wait for it"
    if cause.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN):
        return str(cause.strerror).lower()
    return ""


_CUT_OFF = frozenset({"IncompleteRead", "RemoteDisconnected"})
_DENIED = "join the docker group (sudo usermod -aG docker $USER, then log in again), or set DOCKER_HOST"
_START = "start Docker, or say where it is with DOCKER_HOST or DOCKER_CONTEXT; `docker version` should answer"
_SLOW = "see whether `docker network ls` answers: an overloaded engine needs time, one that hangs a restart"
TLS = "DOCKER_CERT_PATH, or the Docker context, has ca.pem, cert.pem and key.pem"
