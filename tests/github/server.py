"""A server for tests, on loopback: it checks each request, fails on demand, and answers in pages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext
from threading import Lock, Thread
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

_Self = TypeVar("_Self", bound="FakeServer")


@dataclass
class Faults:
    """What goes wrong, by the method and path of a request.

    Attributes:
        forbidden: patterns of `METHOD path` that the token may not do.
        answers: pattern → status codes for the next requests, one each; afterwards all is well.
        retry_after: seconds in the header of such an answer.
        unlinked: commits whose pull requests are not known yet, with the number of times.
        page: items of a page.
        message: of such an answer.
        text: in place of every answer, where it is not None.
    """

    forbidden: list[str] = field(default_factory=list)
    answers: dict[str, list[int]] = field(default_factory=dict)
    retry_after: int | None = None
    unlinked: dict[str, int] = field(default_factory=dict)
    page: int = 100
    message: str = "refused for a test"
    text: str | None = None


class FakeServer:
    """A context manager: the server runs inside.

    Attributes:
        root: the path of the API.
        repository: the path of the repository below it.
        items: key of the list in an answer with pages; "" where the answer is the list.
        routes: pattern of `METHOD path`, below the repository, and the method that answers.
    """

    root: str
    repository: str
    items = ""
    forbidden: str

    def __init__(self, context: SSLContext | None = None) -> None:
        self.faults = Faults()
        self.requests: list[str] = []
        self.violations: list[str] = []
        self._lock = Lock()
        self._last = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    def __enter__(self: _Self) -> _Self:
        Thread(target=self._server.serve_forever, args=[0.01], daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Fails when a request was not as its server describes it."""
        self._server.shutdown()
        self._server.server_close()
        assert not self.violations, "\n".join(self.violations)

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}{self.root}"

    def routes(self) -> list[tuple[str, Callable[..., tuple[int, Any]]]]:
        raise NotImplementedError

    def faults_of(self, method: str, path: str, query: dict[str, str], body: Any) -> Iterator[str]:
        """Yield where a request differs from what the server describes. `path` is below the API."""
        raise NotImplementedError

    def unauthorized(self, headers: Any, method: str, path: str) -> tuple[int, Any] | None:
        """Return the answer to a request whose token may not do that."""
        return None

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        """Status and JSON of the answer to a request; `path` is below the repository."""
        for pattern, act in self.routes():
            if matched := re.fullmatch(pattern, f"{method} {path}"):
                with self._lock:
                    return act(*matched.groups(), query=query, body=body)
        return 404, {"message": "Not Found"}

    def _id(self) -> int:
        self._last += 1
        return self._last

    def _handler(fake) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_request(self) -> None:
                parts = urlsplit(self.path)
                path = parts.path.removeprefix(fake.root).removeprefix(fake.repository)
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
                word = f"{self.command} {path}"
                fake.requests.append(word)
                headers: dict[str, str] = {}
                below = parts.path.removeprefix(fake.root)
                fake.violations += fake.faults_of(self.command, below, query, body)
                status, value = (
                    fake._refusal(word, headers)
                    or fake.unauthorized(self.headers, self.command, below)
                    or fake.answer(self.command, path, query, body)
                )
                headers |= value.pop("headers", {}) if isinstance(value, dict) else {}
                value = self._page(value, query, headers)
                raw = (json.dumps(value) if fake.faults.text is None else fake.faults.text).encode()
                self.send_response(status)
                for name, text in {**headers, "Content-Length": str(len(raw))}.items():
                    self.send_header(name, text)
                self.end_headers()
                self.wfile.write(raw)

            def _page(self, value: Any, query: dict[str, str], headers: dict[str, str]) -> Any:
                items = value.get(fake.items) if isinstance(value, dict) and fake.items else value
                if not isinstance(items, list):
                    return value
                page, size = int(query.get("page", 1)), min(int(query.get("per_page", 30)), fake.faults.page)
                if len(items) > page * size:
                    base = self.path.partition("&page=")[0]
                    root = fake.url.removesuffix(fake.root)
                    headers["Link"] = f'<{root}{base}&page={page + 1}>; rel="next"'
                part = items[(page - 1) * size : page * size]
                return {**value, fake.items: part} if isinstance(value, dict) else part

            do_GET = do_POST = do_PATCH = do_PUT = handle_request

            def log_message(self, *_: Any) -> None:
                pass

        return Handler

    def _refusal(self, word: str, headers: dict[str, str]) -> tuple[int, Any] | None:
        if any(re.search(pattern, word) for pattern in self.faults.forbidden):
            return 403, {"message": self.forbidden}
        for pattern, codes in self.faults.answers.items():
            if codes and re.search(pattern, word):
                if self.faults.retry_after is not None:
                    headers["Retry-After"] = str(self.faults.retry_after)
                return codes.pop(0), {"message": self.faults.message}
        return None
