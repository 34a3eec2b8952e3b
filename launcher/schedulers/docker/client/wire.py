"""Requests to one engine. The only importer of the Docker SDK, which a socket of this machine does not need:
it is there for TCP, TLS and proxies, and for what `docker login` left.

Every answer that is not a success, and every way for a connection to break, comes out as an EngineError.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from importlib.util import find_spec
from threading import Lock

from launcher.errors import LauncherError
from launcher.schedulers.docker.client.errors import SHAPES, EngineError, EngineUnreachable, broken, refusal
from launcher.schedulers.docker.client.plain import Session
from launcher.schedulers.docker.client.transport import dialer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from typing import Any

    from launcher.schedulers.docker.client.contexts import Endpoint

ANSWER_S = 60.0
CONNECTIONS = 16  # kept open for reuse; more threads than this still work, each on a connection of its own

_LOGIN = Lock()  # filters of warnings, and what the SDK remembers of credentials, belong to the whole process
_ANY_SOCKET = "unix:///nothing/is/sent/there"
_NEWEST = "1.45"  # API version that this program knows


class Reader:
    """Sends GET and HEAD, and has no way to send anything else."""

    methods = frozenset({"GET", "HEAD"})

    def __init__(self, endpoint: Endpoint, version: str | None = None) -> None:
        self.host = endpoint.host
        self._send = _sender(endpoint, version, self.methods)

    def get(self, path: str, doing: str, **options: Any) -> Any:
        return self._send("GET", path, doing, **options)

    def head(self, path: str, doing: str, **options: Any) -> Any:
        return self._send("HEAD", path, doing, **options)

    def json(self, path: str, doing: str, **options: Any) -> Any:
        """The decoded answer of a GET."""
        return decoded(self.get(path, doing, **options), self.host)

    def breaking(self, doing: str) -> AbstractContextManager[None]:
        """For reading an answer bit by bit: what a library raises meanwhile comes out as an EngineError."""
        return breaking(self.host, doing)

    def close(self) -> None:
        self._send("CLOSE", "", "")


class Writer(Reader):
    """Sends everything."""

    methods = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE"})

    def post(self, path: str, doing: str, **options: Any) -> Any:
        return self._send("POST", path, doing, **options)

    def put(self, path: str, doing: str, **options: Any) -> Any:
        return self._send("PUT", path, doing, **options)

    def delete(self, path: str, doing: str, **options: Any) -> Any:
        return self._send("DELETE", path, doing, **options)


def _sender(endpoint: Endpoint, version: str | None, methods: frozenset[str]) -> Any:
    """A function that sends requests of these methods; the session can only be reached through it."""
    session = _session(endpoint)
    base, host = session.base_url, endpoint.host
    agreed: list[str] = [version] if version else []
    asking = Lock()

    def prefix() -> str:
        with asking:
            if not agreed:
                agreed.append(_agree(session, host))
        return f"{base}/v{agreed[0]}"

    def send(method: str, path: str, doing: str, login: str | None = None, **options: Any) -> Any:
        if method == "CLOSE":
            return session.close()
        if method not in methods:
            raise ValueError(f"{method} {path}: this connection only reads")
        with breaking(host, doing):
            if login is not None:
                options["headers"] = {**options.get("headers", {}), **_credentials(login, doing)}
            # Left out, `verify` would not be the session's but what REQUESTS_CA_BUNDLE says.
            fixed = {"timeout": ANSWER_S, "allow_redirects": False, "verify": session.verify}
            options = {**fixed, **options}
            answer = session.request(method, prefix() + path, **options)
            if 300 <= answer.status_code < 400 and answer.status_code != 304:
                raise refusal(404, "there is no such name", doing)  # one like `..` leads elsewhere
            if answer.status_code >= 400:
                raise refusal(answer.status_code, _explanation(answer), doing)
        return answer

    return send


def _credentials(image: str, doing: str) -> dict[str, Any]:
    """What `docker login` left for the registry of `image`; for all registries when it is ""."""
    import warnings

    from docker import APIClient, auth  # type: ignore[import-untyped,import-not-found,unused-ignore]
    from docker.errors import DockerException  # type: ignore[import-untyped,import-not-found,unused-ignore]

    headers: dict[str, Any] = {}
    try:
        with _LOGIN, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the SDK warns of, it also raises
            client = APIClient(_ANY_SOCKET, version=_NEWEST)
            if image:
                registry, _ = auth.resolve_repository_name(image)
                found = auth.get_config_header(client, registry) or auth.encode_header({})
                headers["X-Registry-Auth"] = found
            else:
                client._set_auth_headers(headers)
    except (DockerException, RuntimeError) as error:  # the latter: a credential store that fails
        raise EngineError(f"cannot {doing}: {error}", hint="see whether `docker login` works") from None
    return headers


def _session(endpoint: Endpoint) -> Any:
    """What sends requests; nothing is sent yet."""
    if find_spec("docker") is None:
        raise ModuleNotFoundError("No module named 'docker'", name="docker")
    try:
        found = dialer(endpoint.host)
    except ValueError as error:
        raise _no_host(endpoint, error) from None
    return _sdk_session(endpoint) if found is None else Session(endpoint.host, found, CONNECTIONS)


def _sdk_session(endpoint: Endpoint) -> Any:
    import docker  # type: ignore[import-untyped,import-not-found,unused-ignore]

    try:
        tls = endpoint.tls and docker.tls.TLSConfig(**endpoint.tls)
        # A version given here keeps the SDK from asking for it, which it does with messages of its own.
        options = {"version": _NEWEST, "timeout": ANSWER_S, "max_pool_size": CONNECTIONS}
        session = docker.APIClient(endpoint.host, tls=tls, **options)
    except (docker.errors.DockerException, OSError, ValueError) as error:
        raise _no_host(endpoint, error) from None
    session.headers["Accept-Encoding"] = "identity"  # archives would come compressed
    return session


def _no_host(endpoint: Endpoint, error: Exception) -> EngineUnreachable:
    return EngineUnreachable(f"cannot use the Docker engine at {endpoint.host}: {error}", hint=SHAPES)


def _agree(session: Any, host: str) -> str:
    """The newest API version that both sides know; older ones need an engine that still speaks them."""
    answer = session.get(f"{session.base_url}/_ping", timeout=ANSWER_S, verify=session.verify)
    theirs = answer.headers.get("Api-Version", "")
    if answer.status_code >= 400:
        raise refusal(answer.status_code, _explanation(answer), "ask for its version")
    if not theirs:
        raise EngineUnreachable(f"what answers at {host} is not a Docker engine: it names no API version")
    return str(min(theirs, _NEWEST, key=_numbers))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _explanation(answer: Any) -> str:
    text = answer.text or answer.reason or ""
    try:
        told = json.loads(text)
    except ValueError:
        return str(text)
    return str(told.get("message") or text) if isinstance(told, dict) else str(text)


def decoded(answer: Any, host: str) -> Any:
    try:
        return json.loads(answer.content)
    except ValueError:
        raise EngineError(f"the Docker engine at {host} answered something that is not JSON") from None


@contextmanager
def breaking(host: str, doing: str) -> Iterator[None]:
    """Everything that a library raises in here comes out as an EngineError."""
    try:
        yield
    except LauncherError:
        raise
    except Exception as error:
        if not _foreign(error):
            raise
        raise broken(host, error, doing) from None


def _foreign(error: Exception) -> bool:
    """Whether a library or the system raised it; a mistake of ours keeps its traceback."""
    module = type(error).__module__.partition(".")[0]
    return isinstance(error, OSError) or module in ("docker", "requests", "urllib3", "http", "ssl", "tarfile")
