"""The server of a repository, GitHub or GitLab: comments, checks and pull requests over a JSON API.

It reads pages, obeys rate limits, and repeats requests that have had no effect.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from email.message import Message
from http.client import HTTPException
from ssl import SSLCertVerificationError
from typing import Any, Final, NamedTuple, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from launcher.dataclass import dataclass
from launcher.errors import LauncherError

_T = TypeVar("_T")
MOST_CHARACTERS: Final = 60_000
"""The most characters of a written text; GitHub takes 65,536 in a comment and 65,535 in a check run."""
_TIMEOUT_S: Final = 30.0
_PATIENCE_S: Final = 300.0
"""The most seconds for one request, with all of its repeats."""
_MOST_BYTES: Final = 64 << 20
_MOST_PAGES: Final = 100


class ForgeError(LauncherError):
    """The server refused a request, or did not answer.

    Attributes:
        status: HTTP status of the answer; 0 without an answer.
        permission: the permission that the token lacks, such as `checks: write`; "" for another reason.
    """

    code = "forge"

    def __init__(self, message: str, *, status: int = 0, permission: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.permission = permission

    @property
    def is_forbidden(self) -> bool:
        """Whether the token lacks the permission for the request."""
        return bool(self.permission)


@dataclass(frozen=True, slots=True)
class ForgeComment:
    id: int
    body: str
    author: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRun:
    id: int
    name: str
    sha: str
    conclusion: str = ""
    title: str = ""
    summary: str = ""
    text: str = ""
    external_id: str = ""
    app: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    number: int
    head_sha: str
    base_ref: str
    merged: bool
    merge_commit_sha: str = ""


class Check(NamedTuple):
    """A check run to be written."""

    name: str
    conclusion: str
    title: str
    summary: str
    text: str
    external_id: str


class Words(NamedTuple):
    """The words of a server.

    Attributes:
        request: the name of a pull request.
        sign: the sign before its number.
        by_hand: how a user applies a plan manually, followed by its digest.
    """

    request: str
    sign: str
    by_hand: str


class _Redirects(HTTPRedirectHandler):
    """Follows the redirect of a download without the token, which is for one address. Refuses others."""

    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        is_safe = urlsplit(newurl).scheme in ("https", req.type)
        if code != 302 or "/artifacts/" not in req.selector or not is_safe:
            return None
        return Request(newurl, headers={"User-Agent": "launcher"})


class HttpRefusal(NamedTuple):
    """An HTTP error that the server answered: status, headers and message."""

    status: int
    headers: Message
    message: str

    @classmethod
    def of(cls, error: HTTPError) -> HttpRefusal:
        with error:
            try:
                said = json.loads(error.read(100_000))
                said = said if isinstance(said, dict) else {}
                message = str(said.get("message") or said.get("error") or "")
            except (ValueError, OSError, RecursionError):
                message = ""
        return cls(error.code, error.headers, message)

    @property
    def is_limit(self) -> bool:
        """Whether a rate limit refused the request, which then had no effect."""
        if self.status == 429:
            return True
        named = "Retry-After" in self.headers or self.headers.get("X-RateLimit-Remaining") == "0"
        return self.status == 403 and (named or "rate limit" in self.message.lower())

    def wait_s(self, pause: float, *, repeats: bool) -> float | None:
        """Return the seconds to wait before the request is repeated; None where it must not be repeated."""
        if not (self.is_limit or (self.status >= 500 and repeats)):
            return None
        after, reset = self.headers.get("Retry-After", ""), self.headers.get("X-RateLimit-Reset", "")
        if after.isdecimal():
            return max(pause, float(after))
        if self.is_limit and self.headers.get("X-RateLimit-Remaining") == "0" and reset.isdecimal():
            return max(pause, float(reset) - time.time())
        return pause


class Api:
    """The API of one repository. Subclasses name the server, and judge its refusals.

    Args:
        url: address of the API; the token is sent to this address alone.
        base: address of the repository, below it.
        sleep: waits between repeats, in seconds.

    Attributes:
        error: the errors of this server.
    """

    error: type[ForgeError]
    name: str

    def __init__(self, url: str, base: str, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._api, self._base, self._sleep = url, base, sleep
        self._opener: OpenerDirector = build_opener(_Redirects)

    def headers(self, method: str, url: str) -> Mapping[str, str]:
        """The headers of a request, with the token."""
        raise NotImplementedError

    def refused(self, refusal: HttpRefusal, method: str, url: str) -> ForgeError | None:
        """The error for a refusal that names what the token lacks; None for another reason."""
        raise NotImplementedError

    def _pages(self, path: str, make: Callable[[Mapping[str, Any]], _T], key: str = "") -> Iterator[_T]:
        """Yield what `make` makes of the items of every page of a list."""
        url = f"{self._base}{path}{'&' if '?' in path else '?'}per_page=100"
        for _ in range(_MOST_PAGES):
            value, headers = self._request("GET", url)
            items = value.get(key) if key and isinstance(value, dict) else value
            if not isinstance(items, list):
                raise self._of_another_shape(value)
            yield from (self._made(make, item) for item in items)
            following = re.search(r'<([^<>]+)>;\s*rel="next"', headers.get("Link", ""))
            if following is None:
                return
            if not following[1].startswith(f"{self._api}/"):
                raise self.error(f"the next page of {path} lies on another host: {following[1][:100]}")
            url = following[1]
        raise self.error(f"{path} has more than {_MOST_PAGES} pages")

    def _send(
        self,
        method: str,
        path: str,
        make: Callable[[Mapping[str, Any]], _T],
        body: Mapping[str, Any] | None = None,
        *,
        repeats: bool | None = None,
    ) -> _T:
        """Return what `make` makes of the answer to a request."""
        return self._made(make, self._request(method, self._base + path, body, repeats=repeats)[0])

    def _made(self, make: Callable[[Mapping[str, Any]], _T], value: Any) -> _T:
        try:
            return make(value)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise self._of_another_shape(value) from None

    def _of_another_shape(self, value: Any) -> ForgeError:
        return self.error(f"{urlsplit(self._api).netloc} answers with JSON of another shape: {value!r:.200}")

    def _if_there(self, ask: Callable[[], _T]) -> _T | None:
        """Return the answer to a request; None where the server has no such thing, or not any more."""
        try:
            return ask()
        except ForgeError as error:
            if error.status not in (404, 410) or error.is_forbidden:
                raise
        return None

    def _request(
        self, method: str, url: str, body: Mapping[str, Any] | None = None, *, repeats: bool | None = None
    ) -> tuple[Any, Mapping[str, str]]:
        """Return the answer as JSON and its headers. Repeats a request without effect for `_PATIENCE_S`.

        Args:
            repeats: whether the request may take effect twice; None for every method but POST.
        """
        repeats = method != "POST" if repeats is None else repeats
        deadline = time.monotonic() + _PATIENCE_S
        pause = 1.0
        while True:
            try:
                return self._once(method, url, body)
            except HTTPError as error:
                refusal = HttpRefusal.of(error)
                wait = refusal.wait_s(pause, repeats=repeats)
                if wait is None or time.monotonic() + wait > deadline:
                    raise (self.refused(refusal, method, url) or self._error(refusal, method, url)) from None
            except (URLError, HTTPException, OSError) as error:
                # The answer was lost, so the request may have taken effect.
                why = getattr(error, "reason", error)
                is_unknown = isinstance(why, SSLCertVerificationError)
                if is_unknown or not repeats or time.monotonic() + pause > deadline:
                    hint = "name the certificates of its authority in SSL_CERT_FILE" if is_unknown else ""
                    raise self.error(f"{urlsplit(url).netloc} does not answer: {why}", hint=hint) from error
                wait = pause
            self._sleep(wait)
            pause = min(pause * 2, 60.0)

    def _once(self, method: str, url: str, body: Mapping[str, Any] | None) -> tuple[Any, Mapping[str, str]]:
        headers = {"User-Agent": "launcher", **self.headers(method, url)}
        if not all(text.isascii() and text.isprintable() for text in headers.values()):
            # http.client would refuse it with an error that shows the token.
            hint = "store it without a line end"
            raise self.error("the token has a character that no token has", hint=hint)
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        request = Request(url, data=data, headers=headers, method=method)
        with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
            raw = answer.read(_MOST_BYTES)
            try:
                return json.loads(raw), answer.headers
            except (ValueError, RecursionError) as error:
                raise self.error(f"{urlsplit(url).netloc} answers with what is no JSON: {error}") from error

    def _error(self, refusal: HttpRefusal, method: str, url: str) -> ForgeError:
        path = urlsplit(url).path
        is_moved = refusal.status // 100 == 3
        hint = "the repository was renamed or moved: push to its new address" if is_moved else ""
        words = f"{self.name} refuses {method} {path}: {refusal.status} {refusal.message[:500]}"
        return self.error(words, status=refusal.status, hint=hint)
