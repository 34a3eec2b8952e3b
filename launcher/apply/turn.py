"""The turn of one step among the steps of an apply."""

from __future__ import annotations

import os
from threading import Event

from launcher.turns.ask import Ask

_LOOK_S = 0.002


class Turn:
    """The turn of one step.

    Attributes:
        ask: what its app asks for, with the number of its ticket.
        before: the turn before it in this apply; None for the first, and on a free machine with room for all.
        settled: set once the app is accepted, or is not submitted.
    """

    def __init__(self, ask: Ask, before: Turn | None = None) -> None:
        self.ask = ask
        self.before = before
        self.settled = Event()
        self._has_followed = before is None

    def follow(self) -> None:
        """Return once every app before it is in line, runs, or is settled.

        Several threads submit apps, and a free machine would take the first one that arrives.
        """
        turn = self.before
        while turn is not None:
            ticket = os.path.join(turn.ask.table, turn.ask.name)
            while not turn.settled.wait(_LOOK_S) and not os.path.exists(ticket):
                pass
            turn = None if turn._has_followed else turn.before
        self._has_followed = True
