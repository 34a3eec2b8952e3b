"""Requests to one engine.

Every response that is not a success, and every failure of a connection, is raised as an EngineError. A
process that follows an app, or holds it, makes a request again with `Patience` while the engine is away.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from contextlib import contextmanager
from threading import Lock

from launcher import outages
from launcher.errors import LauncherError
from launcher.schedulers.docker.client.configuration import login_headers
from launcher.schedulers.docker.client.errors import (
    SHAPES,
    TLS,
    ConnectionBroke,
    EngineError,
    EngineGone,
    EngineSilent,
    EngineUnreachable,
    EngineUnsupported,
    NonsenseAnswer,
    NotFound,
    broken,
    may_pass,
    refusal,
)
from launcher.schedulers.docker.client.transport import Session, dialer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeVar

    from launcher.schedulers.docker.client.configuration import Endpoint
    from launcher.schedulers.docker.client.transport import Response

    T = TypeVar("T")


ANSWER_S = 60.0
VERSION_S = 20.0  # an engine names its version without any work: without a response by then it hangs
CONNECTIONS = 16  # connections that stay open for reuse; further threads use connections of their own
PAUSES_S = (0.1, 0.4)  # pauses before the second and the third try of a request that only reads
_RETRY_WITHIN_S = 10.0  # a request that failed only after this long is not tried again

_NEWEST = "1.45"  # API version that this program knows
_READS = frozenset({"GET", "HEAD"})
_VERSION = re.compile(r"\d+\.\d+\Z")


class Wire:
    """Sends requests to one engine. `readonly`: GET and HEAD alone."""

    def __init__(self, endpoint: Endpoint, version: str | None = None, *, readonly: bool = False) -> None:
        self.host = endpoint.host
        self._readonly = readonly
        try:
            self._session = Session(endpoint.host, dialer(endpoint), CONNECTIONS)
        except (OSError, ValueError) as error:
            where = f"cannot use the Docker engine at {endpoint.host}"
            hint = TLS if endpoint.tls and isinstance(error, OSError) else SHAPES
            raise EngineUnreachable(f"{where}: {error}", hint=hint) from None
        self._given = version
        self._version = ""  # API version, once both sides have agreed on one
        self._asking = Lock()

    def json(
        self, path: str, doing: str, read: Callable[[Any], T], *, method: str = "GET", **options: Any
    ) -> T:
        """Return `read` of the JSON in a response.

        Raises NonsenseAnswer for a response that is not JSON, or that `read` cannot decode.
        """

        def decode(answer: Response) -> T:
            with self.decoding(doing):
                try:
                    found = json.loads(answer.content)
                except ValueError:
                    text = f"the Docker engine at {self.host} answered something that is not JSON"
                    raise NonsenseAnswer(text) from None
                return read(found)

        found: T = self.send(method, path, doing, decode=decode, **options)
        return found

    def find(self, path: str, doing: str, read: Callable[[Any], T], **options: Any) -> T | None:
        """As `json`; None when there is no such object."""
        try:
            return self.json(path, doing, read, **options)
        except NotFound:
            return None

    @contextmanager
    def translating_errors(self, doing: str) -> Iterator[None]:
        """Context for a request and its response: raise errors of libraries as an EngineError."""
        try:
            yield
        except LauncherError:
            raise
        except Exception as error:
            if not _foreign(error):
                raise
            raise broken(self.host, error, doing) from None

    @contextmanager
    def decoding(self, doing: str) -> Iterator[None]:
        """Context for decoding a response: raise NonsenseAnswer for missing fields or an unexpected form."""
        try:
            yield
        except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
            raise NonsenseAnswer(
                f"the server at {self.host} is not a Docker engine, or of a version that launcher does not"
                f" know: its response cannot be decoded (cannot {doing})",
                hint="see what `docker version` says of it",
            ) from error

    def close(self) -> None:
        self._session.close()

    def send(
        self,
        method: str,
        path: str,
        doing: str,
        login: str | None = None,
        decode: Callable[[Any], Any] | None = None,
        **options: Any,
    ) -> Any:
        """The response, or `decode` of it. A request that only reads is repeated after a failure."""
        if self._readonly and method not in _READS:
            raise ValueError(f"{method} {path}: this connection only reads")
        target = f"/v{self._agreed(doing)}{path}"

        def once() -> Any:
            with self.translating_errors(doing):
                answer = self._answer(method, target, doing, login, options)
            return answer if decode is None else decode(answer)

        return repeated(once) if method in _READS else once()

    def _answer(
        self, method: str, target: str, doing: str, login: str | None, options: dict[str, Any]
    ) -> Response:
        if login is not None:
            options["headers"] = {**options.get("headers", {}), **login_headers(login, doing)}
        answer = self._session.request(method, target, **{"timeout": ANSWER_S, **options})
        if 300 <= answer.status_code < 400 and answer.status_code != 304:
            raise refusal(404, "there is no such name", doing)  # a redirect, as for a name such as `..`
        if answer.status_code >= 400:
            raise refusal(answer.status_code, _explanation(answer), doing)
        return answer

    def _agreed(self, doing: str) -> str:
        """The API version of all requests."""
        with self._asking:
            if not self._version:
                newest = repeated(lambda: self._newest(doing))
                self._version = self._given or newest
            return self._version

    def _newest(self, doing: str) -> str:
        """The newest API version that both sides have; an older one needs an engine that still supports it.

        Raises EngineUnsupported for an engine that is not Docker's, EngineUnreachable where none answers.
        """
        with self.translating_errors(doing):
            answer = self._session.request("GET", "/_ping", timeout=VERSION_S)
            theirs = answer.headers.get("Api-Version", "")
            if answer.status_code >= 400:
                raise refusal(answer.status_code, _explanation(answer), "ask for its version")
            if not _VERSION.match(theirs):
                raise EngineUnreachable(
                    f"the server at {self.host} is not a Docker engine: it names no API version", hint=SHAPES
                )
            # Docker's engine names itself in each response. Other engines, and proxies, need another request.
            if not answer.headers.get("Server", "").startswith("Docker/"):
                _check_maker(self._session, self.host)
        return str(min(theirs, _NEWEST, key=lambda version: [int(part) for part in version.split(".")]))


def repeated(work: Callable[[], T]) -> T:
    """Run `work`, which only reads; repeat it, at most twice, after a failure that may pass."""
    for pause_s in PAUSES_S:
        began = time.monotonic()
        try:
            return work()
        except EngineError as error:
            # An engine that is away, or lacks the object, is not asked again; one that broke off is.
            is_final = isinstance(error, (EngineUnreachable, NotFound))
            is_asked_again = isinstance(error, ConnectionBroke) if is_final else may_pass(error)
            if not is_asked_again or time.monotonic() - began > _RETRY_WITHIN_S:
                raise
        time.sleep(pause_s)
    return work()


def _check_maker(session: Session, host: str) -> None:
    """Raise EngineUnsupported when the engine's own description is not Docker's."""
    answer = session.request("GET", "/version", timeout=VERSION_S)
    if answer.status_code >= 500:
        raise refusal(answer.status_code, _explanation(answer), "ask for its version")
    try:
        data = json.loads(answer.content)
    except ValueError:
        return  # too old for this request, or no engine: the next request fails then
    engine = other_engine(data)
    if engine:
        raise EngineUnsupported(
            f"the engine at {host} is {engine}, and launcher supports Docker's engine only",
            hint="set DOCKER_HOST to a Docker engine, or choose `scheduler: local_cwd`",
        )


def other_engine(data: object) -> str:
    """Name and version of an engine that is not Docker's, from its response to /version; "" for Docker's.

    Docker's engine lists a component `Engine`, Podman's a component `Podman Engine`.
    Source: https://docs.docker.com/reference/api/engine/version/v1.41/#tag/System/operation/SystemVersion
    """
    components = data.get("Components") if isinstance(data, dict) else None
    named = [each for each in components or () if isinstance(each, dict) and each.get("Name")]
    if not named or any(each["Name"] == "Engine" for each in named):
        return ""
    engine = next((each for each in named if "engine" in str(each["Name"]).lower()), named[0])
    return " ".join(filter(None, (str(engine["Name"]), str(engine.get("Version") or ""))))


def _explanation(answer: Response) -> str:
    text = answer.text or answer.reason or ""
    try:
        data = json.loads(text)
    except ValueError:
        return str(text)
    return str(data.get("message") or text) if isinstance(data, dict) else str(text)


def _foreign(error: Exception) -> bool:
    """Whether a library or the system raised it; errors of launcher itself keep their traceback."""
    module = type(error).__module__.partition(".")[0]
    return isinstance(error, OSError) or module in ("http", "tarfile")


# -- while the engine is away ------------------------------------------------------------------------------


GIVE_UP_S = 600.0
"""How long an engine may be away, since it answered last."""
SHORTEST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0


class Patience:
    """Growing pauses and a time limit, with which one thread waits for an engine.

    Args:
        deadline: monotonic time after which the thread waits no longer; None for GIVE_UP_S alone.
        sleep: waits for a number of seconds, or until the caller is closed.
        holds: the thread holds an app, and so waits also after a refusal that is final for other callers.
    """

    def __init__(
        self,
        host: str,
        deadline: float | None = None,
        *,
        sleep: Callable[[float], object] = time.sleep,
        holds: bool = False,
    ) -> None:
        self._holds = holds
        self._sleep = sleep
        self._host = host
        self._deadline = deadline
        self._pause = SHORTEST_PAUSE_S
        self._since = self._began = time.monotonic()

    def persist(self, call: Callable[[], T]) -> T:
        """Return the result of `call`, repeated while it raises an error that may pass.

        Raises the EngineError that is final, or when the engine has been away for too long.
        """
        while True:
            try:
                found = call()
            except EngineError as error:
                self.wait(error)
            else:
                self.answered()
                return found

    def answered(self) -> None:
        outages.back(self._host)
        self._since = self._began = time.monotonic()

    def wait(self, error: EngineError) -> None:
        """Wait until the next try after this error; raises the error when there is no next try."""
        if not (self._holds or may_pass(error)):
            raise error
        now = time.monotonic()
        if isinstance(error, EngineGone):
            self._since = now  # the engine answered until now
        if now - self._began > LONGEST_PAUSE_S:
            # An engine that breaks each connection off is not asked ten times a second.
            self._pause = SHORTEST_PAUSE_S
        if not isinstance(error, EngineSilent):
            if now - self._since > GIVE_UP_S or (self._deadline is not None and now > self._deadline):
                raise error
            outages.lost(self._host, str(error).partition("\n")[0], self._began)
            left = self._pause if self._deadline is None else self._deadline - now
            self._sleep(min(self._pause, max(left, 0.0)))
            self._pause = min(self._pause * 2, LONGEST_PAUSE_S)
        self._began = time.monotonic()
