"""A receiver of notifications, whose requests are verified as Standard Webhooks asks for."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from jsonschema import Draft202012Validator
from standardwebhooks.webhooks import Webhook

from launcher.notify import notification_schema

KEY = "whsec_bGF1bmNoZXItdGVzdHMtb2Ytbm90aWZpY2F0aW9ucw=="
PATIENCE_S = 60.0


class Sink:
    """A server on loopback that keeps what it gets; a context manager.

    Attributes:
        answer: the HTTP status of its answers; a location comes with those of redirects.
        got: (id, body) of each request with a valid signature, in order.
        refused: the errors of the other requests.
    """

    def __init__(self, port: int = 0, *, key: str = KEY) -> None:
        self.answer, self.location = 204, ""
        self.got: list[tuple[str, dict[str, Any]]] = []
        self.refused: list[str] = []
        self._changed = threading.Condition()
        webhook, judge = Webhook(key), Draft202012Validator(notification_schema())
        sink = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                text = self.rfile.read(int(self.headers["content-length"])).decode()
                with sink._changed:
                    try:
                        webhook.verify(text, {name.lower(): value for name, value in self.headers.items()})
                        judge.validate(json.loads(text))
                        sink.got.append((self.headers["webhook-id"], json.loads(text)))
                    except Exception as error:
                        sink.refused.append(repr(error))
                    sink._changed.notify_all()
                self.send_response(sink.answer)
                if sink.location:
                    self.send_header("location", sink.location)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}/hook"

    @property
    def ids(self) -> set[str]:
        return {id for id, _ in self.got}

    def wait(self, outcomes: int = 1) -> list[tuple[str, dict[str, Any]]]:
        """Wait until so many outcomes have come; return the requests."""
        with self._changed:
            came = self._changed.wait_for(lambda: len(self.ids) >= outcomes or self.refused, PATIENCE_S)
            assert came, f"{len(self.ids)} outcomes came"
            assert self.refused == []
            return list(self.got)

    def __enter__(self) -> "Sink":
        # `shutdown` waits until the server looks for it again, by default twice a second.
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
