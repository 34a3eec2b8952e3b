"""One try to deliver a notification: an HTTP request as Standard Webhooks asks for, or a command.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import hmac
import time
from collections.abc import Iterator, Sequence
from http.client import HTTPException
from threading import Thread
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from launcher import __version__, command, secrets
from launcher.errors import LauncherError, SecretError
from launcher.specs.notify import Destination, MalformedAddressError, check_url, key_bytes

URL_S: Final = 10.0
COMMAND_S: Final = 30.0
_MARGIN_S: Final = 5.0
_GONE: Final = 410


class DeliveryError(LauncherError):
    """A receiver has not taken a notification.

    Attributes:
        is_final: whether the receiver wants no further try.
    """

    code = "notify"

    def __init__(self, message: str, *, is_final: bool = False) -> None:
        super().__init__(message)
        self.is_final = is_final


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects: one would carry the outcome to an address that the user has not named."""

    def redirect_request(self, *args: Any, **more: Any) -> None:
        return None


def sign(key: str, id: str, timestamp: int, body: str) -> str:
    """The value of the header `webhook-signature`. Raises MalformedAddressError for a malformed key."""
    digest = hmac.digest(key_bytes(key), f"{id}.{timestamp}.{body}".encode(), "sha256")
    return f"v1,{base64.b64encode(digest).decode()}"


def deliver(to: Destination, id: str, body: str, folder: str) -> None:
    """Make one try. Raises DeliveryError, or SecretError where a reference cannot be resolved.

    Args:
        folder: where a command runs that names no folder of its own.
    """
    if to.command:
        _run(to, id, body, to.folder or folder)
    else:
        _post(to, id, body)


def _run(to: Destination, id: str, body: str, folder: str) -> None:
    about = {"WEBHOOK_ID": id, "WEBHOOK_TIMESTAMP": str(int(time.time()))}
    try:
        command.run(to.command, cwd=folder, input=body, timeout_s=COMMAND_S, env=about)
    except (LauncherError, OSError, ValueError) as error:
        raise DeliveryError(str(error)) from error


def _post(to: Destination, id: str, body: str) -> None:
    references = to.references
    address = secrets.resolve(to.url) if "url" in references else to.url
    timestamp = int(time.time())
    headers = {"content-type": "application/json", "user-agent": f"launcher/{__version__}"}
    headers |= {"webhook-id": id, "webhook-timestamp": str(timestamp)}
    try:
        if to.secret:
            headers["webhook-signature"] = sign(secrets.resolve(to.secret), id, timestamp, body)
        request = Request(check_url(address), data=body.encode(), headers=headers, method="POST")
        with build_opener(_NoRedirects).open(request, timeout=URL_S):
            return
    except HTTPError as error:
        with error:
            raise DeliveryError(f"HTTP status {error.code}", is_final=error.code == _GONE) from None
    except MalformedAddressError as error:
        raise SecretError(str(error)) from None
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)  # not the whole error, which may hold the address
        raise DeliveryError(str(getattr(reason, "strerror", None) or type(reason).__name__)) from None


Try = tuple[Destination, str, str, str]
"""The arguments of `deliver`."""


def deliver_all(tries: Sequence[Try]) -> Iterator[LauncherError | None]:
    """Make tries, all at once; yield the error of each, or None, in their order.

    A receiver that keeps a connection open beyond the limit counts as silent.
    """
    results: dict[int, LauncherError | None] = {}
    threads = [(number, each, _start(number, each, results)) for number, each in enumerate(tries)]
    began = time.monotonic()
    for number, each, thread in threads:
        limit = (COMMAND_S if each[0].command else URL_S) + _MARGIN_S
        thread.join(max(0.0, began + limit - time.monotonic()))
        yield results.get(number, DeliveryError("no answer in time"))


def _start(number: int, each: Try, results: dict[int, LauncherError | None]) -> Thread:
    def work() -> None:
        try:
            deliver(*each)
        except LauncherError as error:
            results[number] = error
        except Exception as error:
            results[number] = DeliveryError(type(error).__name__)
        else:
            results[number] = None

    thread = Thread(target=work, daemon=True)
    thread.start()
    return thread
