"""The next step of a watcher for an app as text, from the state machine without an engine."""

from collections.abc import Mapping, Sequence
from typing import Any

from launcher.holding.hold import decide
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.facts import containers_to_events, end_of, has_begun, open_app, unended
from launcher.schedulers.docker.journal import HeldApp, Journal
from launcher.schedulers.docker.labels import Labels

NOW = 100.0


class Recorded:
    """The decisions of one step."""

    def __init__(self) -> None:
        self.events: list[Mapping[str, Any]] = []

    def append(self, event: Mapping[str, Any]) -> None:
        event["t"] = round(NOW * 1e9)
        self.events.append(event)

    def is_written(self) -> bool:
        return True


def opened(
    containers: Sequence[Container], journal: Journal, expected: Sequence[tuple[str, int]] = ()
) -> HeldApp:
    """Return the app as a watcher sees it, before it decides."""
    app = open_app(Labels(containers[0].labels), containers, journal, expected)
    if has_begun(containers, app):
        for event in containers_to_events(app, containers, lambda each: end_of(each, app, None)):
            app.take(event)
    return app


def next_step(
    containers: Sequence[Container],
    journal: Journal,
    *,
    expected: Sequence[tuple[str, int]] = (),
    timeout_s: float | None = None,
    now: float = NOW,
) -> str:
    """Return the step as text: `stop peer, end failed`; `restart app in 9 s, start id0`; `wait until 120`."""
    app = opened(containers, journal, expected)
    app.timeout_s = timeout_s
    made = Recorded()
    decide(app, made, now)
    is_live = any(each.live for each in containers)
    left = unended(app, containers) if app.stop is not None else []
    if app.wants_quiet and not (is_live or left):
        app.take({"e": "quiet"})
        decide(app, made, now)
    words = [_words(each) for each in made.events]
    if left:
        words.append("stop " + " ".join(each.id for each in left))
    elif app.to_stop and app.stop is None:
        names = [(each.role.name, each.k) for each in app.to_stop if each.is_active]
        words.append("halt " + " ".join(each.id for each in containers if _where(each) in names))
    elif due := [(each.role.name, each.k) for each in app.take_to_start(99)]:
        words.append("start " + " ".join(each.id for each in containers if _where(each) in due))
    if not words:
        words = [
            "leave"
            if app.has_ended
            else "wait"
            if app.deadline() is None
            else f"wait until {app.deadline():g}"
        ]
    return ", ".join(words)


def _where(container: Container) -> tuple[str, int]:
    labels = Labels(container.labels)
    return labels.role, labels.replica


def _words(event: Mapping[str, Any]) -> str:
    if event["e"] == "restart":
        who = f" {event['role']}" if event["scope"] == "role" else f" {event['role']}/{event['k']}"
        pause = f" in {event['delay_s']} s" if "delay_s" in event else ""
        return f"restart {event['scope']}{'' if event['scope'] == 'app' else who}{pause}"
    if event["e"] == "stopping":
        return f"{event['why']} {event.get('message') or event['by']}".strip()
    return f"end {event['state']}"
