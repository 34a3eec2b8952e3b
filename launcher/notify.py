"""Send the outcomes of attempts to URLs and commands: the notification, and the process that sends it.

The sender waits for the ends of the attempts of one group. It makes HTTP requests as Standard Webhooks asks
for, or runs commands:
https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md

It runs as `python -I -c '…; main()' GROUP REPLACES PATH…`; see `launcher/state/outbox.py`. It ends when every
outcome is sent, or given up. A record is removed after the last receiver has answered, so a sender that is
killed sends some outcomes twice and none not at all: the id is the same.
"""

from __future__ import annotations

import base64
import hmac
import json
import os
import select
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from http.client import HTTPException
from threading import Thread
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from launcher import __version__, command, secrets
from launcher.errors import LauncherError, SecretError
from launcher.filelock import try_lock
from launcher.inventory import recorded
from launcher.inventory.listing import current
from launcher.inventory.status import inspect
from launcher.paths import token
from launcher.schedulers.local import kernel
from launcher.schedulers.registry import get_scheduler
from launcher.specs.notify import (
    OUTCOMES,
    Destination,
    MalformedAddressError,
    check_url,
    from_json,
    key_bytes,
)
from launcher.state import outbox
from launcher.state.records import PENDING, AppRecord
from launcher.text import with_cause
from launcher.turns import bells

VERSION: Final = "launcher.notification/v1"
_FIELDS: Final = ("project", "target", "job", "attempt", "app_id", "handle", "scheduler", "state", "message")
_OTHERS: Final = ("exit_code", "created_at", "started_at", "ended_at", "commit", "actor", "output")


def id_of(app_id: str, state: str, home: str) -> str:
    """The id of an outcome. Every try to send the outcome has this one.

    Args:
        home: the token of the state folder: another folder may have an attempt with the same app id.
    """
    return f"{app_id}_{state}_{home}"


def body_of(app: AppRecord) -> str:
    """The body of the notification of an app that has ended, one line of ASCII."""
    data = {
        **{name: getattr(app, name) for name in (*_FIELDS, *_OTHERS) if name != "attempt"},
        "attempt": app.number,
        "output": app.made_output or None,
        "commit": app.commit or None,
        "actor": app.actor or None,
    }
    ended = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(app.ended_at or time.time()))
    ordered = {name: data[name] for name in (*_FIELDS, *_OTHERS)}
    return json.dumps(
        {"type": f"attempt.{app.state}", "timestamp": ended, "version": VERSION, "data": ordered},
        separators=(",", ":"),
    )


def notification_schema() -> dict[str, Any]:
    text, absent = {"type": "string"}, {"type": ["string", "null"]}
    seconds = {"type": ["number", "null"], "description": "Seconds since the epoch; null where unknown."}
    data: dict[str, Any] = {
        **dict.fromkeys(("project", "target", "job"), text),
        "attempt": {"type": "integer", "description": "The number of the attempt of its job."},
        **dict.fromkeys(("app_id", "handle", "scheduler"), text),
        "state": {"enum": [*OUTCOMES], "description": "The outcome. A real one may follow `lost`."},
        "message": {**text, "description": "The reason, with the first error of a replica; may be empty."},
        "exit_code": {"type": ["integer", "null"], "description": "Of the replica that decided a failure."},
        **dict.fromkeys(("created_at", "started_at", "ended_at"), seconds),
        "commit": {**absent, "description": "The commit of the job file."},
        "actor": {**absent, "description": "The user that applied it."},
        "output": {**absent, "description": "The address of its output folder."},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:launcher:notification-v1",
        "title": "launcher notification",
        "description": "What `[notify]` and `apply --notify` send. Later versions may add fields.",
        "type": "object",
        "properties": {
            "type": {"enum": [f"attempt.{state}" for state in OUTCOMES]},
            "timestamp": {**text, "description": "When the attempt ended, in UTC."},
            "version": {"const": VERSION},
            "data": {"type": "object", "properties": data, "required": [*data]},
        },
        "required": ["type", "timestamp", "version", "data"],
    }


GIVE_UP_S, _LEAST_TRIES = 3 * 86400.0, 20
_KEPT_S: Final = 3 * 86400.0  # how long a finished record stays
_FIRST_S, _LONGEST_S = 5.0, 3600.0  # seconds between two tries of one delivery
_LOOKS: Final = 20  # the longest pause between two looks at an app, in pauses of its scheduler
_GROWTH: Final = 1.3
_COST: Final = 30  # the shortest pause between two looks, in CPU times of a look
_AGAIN_S: Final = 3600.0  # seconds between looks whether a real outcome has replaced `lost`
_AT_ONCE: Final = 8
_STUCK_S: Final = 60.0  # seconds between looks at unstarted apps whose client or holder has died
_REPLACE_S: Final = 120.0
_PROBE_S: Final = 0.5  # a command that looks whether a sender runs holds the lock for a moment
_POLL_S: Final = 0.05
_LONGEST_ERROR: Final = 500
URL_S: Final = 10.0
COMMAND_S: Final = 30.0
_MARGIN_S: Final = 5.0
_GONE: Final = 410

Record = dict[str, Any]


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
    if not to.command:
        _post(to, id, body)
        return
    about = {"WEBHOOK_ID": id, "WEBHOOK_TIMESTAMP": str(int(time.time()))}
    try:
        command.run(to.command, cwd=to.folder or folder, input=body, timeout_s=COMMAND_S, env=about)
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


class Sender:
    """Sends the outcomes of one group.

    Args:
        group: the folder of its records.
        bell: the descriptor that becomes readable when another sender is to replace this one.
    """

    def __init__(self, group: str, bell: int) -> None:
        self._group = group
        self._bell = bell
        self._pause_s = 0.0
        self._home = token()

    def run(self) -> None:
        """Send until nothing is left to be sent, or the bell rings."""
        while True:
            due_at = self._round()
            if due_at is None or self._rests(max(0.0, due_at - time.time())):
                return

    def _rests(self, seconds: float) -> bool:
        """Wait for the next look. Returns True when the bell rings."""
        return bool(select.select([self._bell], [], [], seconds)[0])

    def _round(self) -> float | None:
        """Look at the apps and make the tries that are due; returns when to go on, None for never."""
        began = time.process_time()
        records = dict(outbox.records(self._group))
        # The present state of the apps; unknown apps are absent.
        apps = {app.app_id: app for app in current([*recorded.apps(records).values()])}
        look_s = time.process_time() - began
        for app_id, record in records.items():
            self._take_outcome(app_id, record, apps.get(app_id))
        self._send(records)
        left = [each for record in records.values() for each in record.get("left", ())]
        times = [each["due_at"] for each in left if not (each["given_up"] or each["unreadable"])]
        if live := [app for app in apps.values() if not app.has_ended and not _is_stuck(app)]:
            times.append(time.time() + self._pause(live, look_s))
        if not times:
            for app in filter(_is_stuck, apps.values()):
                outbox.write(self._group, app.app_id, records[app.app_id], time.time() + _STUCK_S)
        return min(times, default=None)

    def _pause(self, live: Sequence[AppRecord], look_s: float) -> float:
        """Return the seconds to the next look at live apps: longer after each look, and if looks take long.

        Args:
            look_s: CPU time of the last look.
        """
        every_s = max(get_scheduler(name, "").describe_every_s for name in {app.scheduler for app in live})
        self._pause_s = min(max(every_s, self._pause_s * _GROWTH), _LOOKS * every_s)
        return max(self._pause_s, _COST * look_s)

    def _take_outcome(self, app_id: str, record: Record, app: AppRecord | None) -> None:
        """Note the deliveries that a new outcome asks for. The record of an unknown app is removed."""
        if app is None:
            outbox.remove(app_id)
            record.clear()
        elif app.has_ended and app.state not in record.get("taken", ()):
            with suppress(LauncherError):
                if app.state in ("failed", "lost"):
                    app.message = with_cause(app.message, inspect(app).cause)
            body = body_of(app)
            wanted = [each for each in record["to"] if from_json(each).wants(app.state)]
            fresh = {"state": app.state, "body": body, "due_at": 0.0, "tries": 0, "error": ""}
            fresh |= {"since": time.time(), "given_up": False, "unreadable": False}
            record["left"] = [*record.get("left", ()), *({**fresh, "to": each} for each in wanted)]
            record["taken"] = [*record.get("taken", ()), app.state]
            self._pause_s = 0.0  # other apps end at about the same time
            self._keep(app_id, record)

    def _send(self, records: Mapping[str, Record]) -> None:
        """Make the tries that are due; a record is written after each of its tries."""
        now = time.time()
        due = [
            (app_id, each)
            for app_id, record in records.items()
            for each in record.get("left", ())
            if each["due_at"] <= now and not each["given_up"]
        ]

        while due and not self._rests(0.0):
            some, due = due[:_AT_ONCE], due[_AT_ONCE:]
            tries = [
                (
                    from_json(each["to"]),
                    id_of(app_id, each["state"], self._home),
                    each["body"],
                    records[app_id]["folder"],
                )
                for app_id, each in some
            ]
            for (app_id, delivery), error in zip(some, deliver_all(tries), strict=True):
                record = records[app_id]
                _judge(delivery, error)
                record["left"] = [each for each in record["left"] if not each.get("done")]
                self._keep(app_id, record)
        for app_id, record in records.items():
            if record.get("taken") and all(each["given_up"] for each in record["left"]):
                self._keep(app_id, record)

    def _keep(self, app_id: str, record: Record) -> None:
        """Write a record, or remove it when nothing of it is left to do."""
        times = [each["due_at"] for each in record["left"] if not each["given_up"]]
        if not record["left"] and record["taken"][-1] != "lost":
            outbox.remove(app_id)
        elif times:
            outbox.write(self._group, app_id, record, min(times))
        else:
            record.setdefault("settled_at", time.time())
            if time.time() - record["settled_at"] > _KEPT_S:
                outbox.remove(app_id)
            else:
                outbox.write(self._group, app_id, record, time.time() + _AGAIN_S)


def _is_stuck(app: AppRecord) -> bool:
    """Whether nothing happens to a live app until another apply submits it again."""
    return app.abandoned or app.state in PENDING


def _judge(delivery: Record, error: LauncherError | None) -> None:
    """Note the result of a try in the delivery."""
    if error is None:
        delivery["done"] = True
        return
    now, receiver = time.time(), str(from_json(delivery["to"]))
    delivery["unreadable"] = isinstance(error, SecretError)
    pause_s = min(_LONGEST_S, _FIRST_S * 3 ** min(delivery["tries"], 9))
    delivery["tries"] += 1
    delivery["due_at"] = now + pause_s
    late = now - delivery["since"] > GIVE_UP_S and delivery["tries"] > _LEAST_TRIES
    delivery["given_up"] = late or (isinstance(error, DeliveryError) and error.is_final)
    then = "given up" if delivery["given_up"] else "it is tried again"
    reason = " ".join(str(error).split())[:_LONGEST_ERROR]
    delivery["error"] = f"{receiver} has not got the outcome `{delivery['state']}` ({then}): {reason}"


def main() -> None:
    group, replaces, *path = sys.argv[1:]
    sys.path += [each for each in path if each not in sys.path]
    os.chdir("/")
    kernel.close_from(3)  # a reader of a pipe that the command has inherited waits for the pipe's end
    deadline = time.monotonic() + (_REPLACE_S if replaces == "1" else _PROBE_S)
    while not _lock(f"{group}.lock"):
        if time.monotonic() >= deadline:
            os._exit(0)
        if replaces == "1":
            with suppress(OSError):  # its holder has just ended
                bells.write_to(f"{group}.bell", b"!")
        time.sleep(_POLL_S)
    try:
        with suppress(FileExistsError):
            os.mkfifo(f"{group}.bell", 0o600)
        bell = os.open(f"{group}.bell", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        Sender(group, bell).run()
    except Exception:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(0)  # threads of unanswered tries do not keep it alive; the kernel releases the lock


def _lock(path: str) -> bool:
    """Take the lock until the end of this process; False while another process holds it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if try_lock(fd):
        return True
    os.close(fd)
    return False
