"""The steps of an app in a process that watches many apps, and the services of that process.

An app goes on in steps, in a thread that may block, never two at a time. Each step ends with the events that
the app waits for, or with its end. Between its steps, an app takes only a few kB of the process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.watching.samples import Sampler
from launcher.specs.needs import StoodOn


class Rest(NamedTuple):
    """The conditions that end the rest of an app, beside its events and messages.

    Attributes:
        until: a time, epoch seconds; None for none.
        readable: descriptors, until one has input.
        hung_up: descriptors, until one hangs up.
    """

    until: float | None = None
    readable: tuple[int, ...] = ()
    hung_up: tuple[int, ...] = ()


OnEnd = Callable[["tuple[str, str] | Exception"], None]
"""Takes the job of a need and the state in which it has ended. It is called in any thread."""


class WatchingProcess(Protocol):
    """The process that watches apps. All methods may be called from any thread.

    Attributes:
        sampler: None for an engine behind ssh, where each request costs a process on the engine's machine.
    """

    engine: Engine
    sampler: Sampler | None

    def submit(self, call: Callable[[], object]) -> None:
        """Run a call in a thread that may block."""

    def post(self, call: Callable[[], object], after_s: float = 0.0) -> None:
        """Run a call that does not block in the loop of the process."""

    def follow_need(self, need: StoodOn, on_end: OnEnd) -> None:
        """Call `on_end` once a needed attempt has ended."""
