"""Make a request again while the engine is away: for processes that follow an app, or hold it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from launcher import outages
from launcher.schedulers.docker.client.errors import EngineError, EngineGone, EngineSilent, may_pass

T = TypeVar("T")

GIVE_UP_S = 600.0
"""How long an engine may be away, since it answered last."""
SHORTEST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 30.0


class Patience:
    """The patience of one thread with an engine: pauses that grow, and an end.

    Args:
        deadline: after which it waits no longer (monotonic); None for GIVE_UP_S alone.
        sleep: waits so many seconds, or until the caller is closed.
        holds: whether it holds an app, and so waits after a refusal that is final for others, too.
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
        """The result of `call`, which is called again until it raises no error that may pass.

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
        self._since = time.monotonic()
        outages.back(self._host)

    def wait(self, error: EngineError) -> None:
        """Wait until the next try after this error; raises it when there is to be none."""
        if not (self._holds or may_pass(error)):
            raise error
        now = time.monotonic()
        if isinstance(error, EngineGone):
            self._since = now  # it answered until now
        if now - self._began > LONGEST_PAUSE_S:
            # An engine that breaks each connection off is not asked ten times a second.
            self._pause = SHORTEST_PAUSE_S
        if not isinstance(error, EngineSilent):
            if now - self._since > GIVE_UP_S or (self._deadline is not None and now > self._deadline):
                raise error
            outages.lost(self._host, str(error).partition("\n")[0])
            left = self._pause if self._deadline is None else self._deadline - now
            self._sleep(min(self._pause, max(left, 0.0)))
            self._pause = min(self._pause * 2, LONGEST_PAUSE_S)
        self._began = time.monotonic()
