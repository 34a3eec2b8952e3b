"""The process that calls the components of job files. `launcher.components.calls` starts it.

It reads calls from a socket, one line of JSON each, and answers each with a line. A component that crashes
ends only this process, and the launcher reports how it ended.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
from functools import partial
from typing import Any

from launcher.components.evaluate import Call, evaluate, failed
from launcher.components.finder import get_component
from launcher.errors import LauncherError

MAX_DATA_BYTES = 8 << 30
"""The memory limit of the process: a component that needs more fails, and the launcher continues."""

_LATE_S = 5.0  # the launcher ends a call that takes too long; this limit is for a dead launcher


def main(descriptor: int, timeout_s: float) -> None:
    """Answer calls until the launcher closes its end."""
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_DATA, MAX_DATA_BYTES)
    os.set_inheritable(descriptor, False)
    with socket.socket(fileno=descriptor) as channel, channel.makefile("rb") as lines:
        for line in lines:
            signal.setitimer(signal.ITIMER_REAL, timeout_s + _LATE_S)
            answer = json.dumps(_answer(json.loads(line)))
            signal.setitimer(signal.ITIMER_REAL, 0)
            channel.sendall(answer.encode() + b"\n")


def _answer(value: dict[str, Any]) -> dict[str, Any]:
    call = Call.from_json(value)
    name = call.component
    try:
        return evaluate(partial(get_component, name, folder=call.folder), call).to_json()
    except LauncherError as error:  # metadata that JSON cannot hold
        return failed(name, "invalid-value", f"component `{name}`: {error}", hint=error.hint or "").to_json()
    except BaseException as error:  # a SystemExit or KeyboardInterrupt of its own, no memory, no stack
        why = f"component `{name}` failed: {type(error).__name__}: {error}"
        return failed(name, "invalid-value", why).to_json()


def _limit(what: int, wanted: int) -> None:
    _, hard = resource.getrlimit(what)
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(what, (limit, limit))
