"""The diagrams of ARCHITECTURE.md have the edges that the histories take, and no others."""

import re
from pathlib import Path
from typing import Any

from launcher.holding.app import App
from tests.holding import histories

PAPER = Path(__file__).resolve().parents[2] / "ARCHITECTURE.md"


class Traced(App):
    """An app that notes each change of a state: (before, after, kind of event)."""

    def __init__(self) -> None:
        super().__init__()
        self.app_edges: set[tuple[str, str, str]] = set()
        self.edges: set[tuple[str, str, str]] = set()

    def _states(self) -> dict[str, str]:
        return {each.name: each.state for each in self.replicas}

    def _note(self, before: dict[str, str], what: str) -> None:
        after = self._states()
        self.edges |= {(before[name], after[name], what) for name in before if before[name] != after[name]}

    def take(self, event: dict[str, Any]) -> None:
        before, state = self._states(), self.state
        super().take(event)
        self._note(before, event["e"])
        if self.state != state:
            self.app_edges.add((state, self.state, event["e"]))

    def take_to_start(self, most: int) -> list[Any]:
        before = self._states()
        found = super().take_to_start(most)
        self._note(before, "take_to_start")
        return found

    def decide(self, now: float) -> dict[str, Any] | None:
        before = self._states()
        decision = super().decide(now)
        self._note(before, "decide")
        return decision


def drawn(title: str) -> set[tuple[str, str, str]]:
    """Return the edges of a diagram: (from, to, event). A label may name several events."""
    text = PAPER.read_text().partition(f"title: {title}")[2].partition("```")[0]
    lines = re.findall(r"^ +(\w+) --> (\w+): (.+)$", text, re.MULTILINE)
    return {(one, other, event) for one, other, label in lines for event in label.split(", ")}


def test_the_diagrams_show_every_change_of_a_state(monkeypatch):
    monkeypatch.setattr(histories, "App", Traced)
    apps, replicas = set(), set()
    for roles, facts, _ in histories.HISTORIES:
        app: Any = histories.play(roles, facts)[0]
        apps |= app.app_edges
        replicas |= app.edges
    assert drawn("an app") == apps
    assert drawn("a replica") == replicas
