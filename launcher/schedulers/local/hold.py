"""Have an app wait before its start, within the loop of its process: see `launcher.holding.waiting`.

No import here may load more than a supervisor has.
"""

from __future__ import annotations

from launcher.holding.waiting import way_to_start
from launcher.schedulers.local import rundir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from launcher.schedulers.local.held import UnstartedApp
    from launcher.schedulers.local.needed import Needed
    from launcher.schedulers.loop import Loop

AGAIN_S = 1.0
"""How soon to try again where a full disk may get space."""


class Hold:
    """One app, until it starts or ends.

    Args:
        needs: job and folder of each app that has to succeed first.
        needed: follows these.
    """

    def __init__(
        self, app: UnstartedApp, loop: Loop, needs: Iterable[tuple[str, str]], needed: Needed
    ) -> None:
        self._app = app
        self._loop = loop
        self._needs = dict(needs)
        self._needed = needed
        self._has_failed = False
        self._way = way_to_start(list(self._needs), self)

    def go_on(self, happened: Any = None) -> None:
        """Go on the way to the start, with what has happened."""
        if self._app.has_ended:
            return
        try:
            self._way.send(happened)
        except StopIteration as over:
            if over.value:
                self._app.go()

    # -- what the way asks for -----------------------------------------------------------------------------

    def accept(self, kind: str, **fields: Any) -> bool:
        return self._app.accept(kind, **fields)

    def note(self, kind: str, **fields: Any) -> None:
        self._app.note(kind, **fields)

    def give_up(self, why: str) -> None:
        self._app.end_unstarted("unmet", why=why)

    def compare(self) -> bool:
        comparison = self._app.comparison
        if comparison is None or not self._app.is_accepted:
            return False
        comparison.begin(self.go_on)
        return True

    def decide(self) -> bool | None:
        if not self._app.is_accepted:
            return True
        try:
            decision = rundir.decide(self._app.app_dir, rundir.START)
        except OSError:  # the disk is full
            self._loop.after(AGAIN_S, self.go_on)
            return None
        if decision != rundir.START:
            self._app.end_unstarted("withdrawn")
        return decision == rundir.START

    def follow_needs(self) -> None:
        for job, folder in self._needs.items():
            self._needed.follow(folder, lambda state, job=job: self.go_on((job, state)))  # type: ignore[misc]

    def has_share(self) -> bool:
        return self._app.share is None or self._app.share.has(self.go_on, self._cannot_queue)

    def _cannot_queue(self, error: OSError) -> None:
        if not self._has_failed:
            self._has_failed = True
            why = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
            self.note("warning", message=f"cannot take its place in line, and tries again: {why}")
