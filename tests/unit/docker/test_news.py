"""What a watcher hears, and how long it listens for it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from launcher.schedulers.docker.client.container import Container
from launcher.schedulers.docker.client.events import Event
from launcher.schedulers.docker.watching.news import News

Told = tuple[str, dict[str, str]]
DIE: Told = ("die", {})
OOM: Told = ("oom", {})
KILL: Told = ("kill", {"signal": "9"})


@pytest.fixture
def news(tmp_path: Path) -> News:
    return News(str(tmp_path))


def tell(news: News, *told: Told) -> None:
    news.relay(Event(1.0, action, "c", "n", attributes) for action, attributes in told)  # type: ignore[arg-type]


def killed(ended_at: float | None = None) -> Container:
    ended_at = time.time() if ended_at is None else ended_at
    return Container(id="c", name="n", state="exited", exit_code=137, ended_at=ended_at)


def test_want_of_memory_is_heard_before_and_behind_the_end(news: News) -> None:
    tell(news, OOM, DIE)
    news.hear_out(killed())
    assert news.oom == {"c"}
    tell(news, ("start", {}), DIE, OOM)
    news.wait(time.time())
    news.hear_out(killed())
    assert news.oom == {"c"}


def test_whose_hand_it_was_is_heard_before_the_end(news: News) -> None:
    tell(news, KILL, DIE, OOM)
    news.hear_out(killed())
    assert (news.by_hand, news.oom) == ({"c"}, set())


def test_an_end_is_heard_out_once(news: News) -> None:
    tell(news, DIE)
    news.wait(time.time())
    news.hear_out(killed(ended_at=1.0))
    tell(news, OOM)
    news.hear_out(killed())
    assert news.oom == set()


def test_an_engine_that_goes_away_was_nobodys_hand(news: News) -> None:
    tell(news, KILL, DIE)
    news.wait(time.time())
    news.reconnect()
    assert news.by_hand == set()
