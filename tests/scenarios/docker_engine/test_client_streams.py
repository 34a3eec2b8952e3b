"""Streams of events and logs miss nothing, and end at once when another thread closes them."""

import threading
import time
from collections.abc import Callable
from http.client import IncompleteRead
from pathlib import Path

import pytest

from launcher.schedulers.docker.client import streams
from launcher.schedulers.docker.client.engine import Engine, connect
from launcher.schedulers.docker.client.errors import NotFound
from launcher.schedulers.docker.client.streams import dechunked, frames, objects
from launcher.schedulers.docker.client.wire import Patience
from tests.engines.port import engine_port
from tests.engines.proxy import Proxy, everything
from tests.scenarios.docker_engine.bench import Bench
from tests.unit.docker.fake_engine import NEEDS_OPENSSL, certificates, server_tls


def test_events_follow_the_life_of_a_container_in_order(own: Bench):
    with own.engine.events(own.label) as stream:
        made = own.sh("exit 3", labels={"launcher.role": "main"})
        actions = []
        for event in stream:
            actions.append(event.action)
            if event.action == "die":
                break
    assert actions == ["create", "start", "die"]
    assert (event.container_id, event.attributes["name"]) == (made, own.name())
    assert event.attributes["exitCode"] == "3"
    assert event.attributes["launcher.role"] == "main"
    assert abs(event.time - time.time()) < 60


def test_events_of_containers_without_the_label_are_left_out(own: Bench):
    with own.engine.events(own.label, "launcher.role=b") as stream:
        own.create("true", labels={"launcher.role": "a"})
        own.create("true", k=1, labels={"launcher.role": "b"})
        assert next(stream).attributes["name"] == own.name(1)


def test_an_event_stream_misses_no_event_however_soon_it_happens(own: Bench):
    for k in range(20):
        with own.engine.events(own.label, f"k={k}") as stream:
            own.create("true", k=k, labels={"k": str(k)})
            assert next(stream).attributes["name"] == own.name(k)


def test_past_events_are_read_from_a_given_time_on(own: Bench):
    own.create("true")
    seen = own.engine.inspect(own.name())
    with own.engine.events(own.label, since=seen.created_at) as stream:
        assert next(stream).action == "create"


def _in_another_thread(work: Callable[[], object]) -> threading.Thread:
    started = threading.Event()

    def run() -> None:
        started.set()
        work()

    thread = threading.Thread(target=run)
    thread.start()
    started.wait()
    return thread


def test_closing_ends_a_waiting_stream_of_events_at_once(own: Bench):
    stream = own.engine.events(own.label)
    got: list[object] = []
    thread = _in_another_thread(lambda: got.extend(stream))
    stream.close()
    stream.close()
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert got == []


@NEEDS_OPENSSL
def test_closing_ends_a_waiting_stream_behind_tls_at_once(tmp_path: Path, token: str):
    folder = certificates(tmp_path)
    with engine_port(server_tls(folder)) as port:
        tls = {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(folder)}
        engine = connect(environ={"DOCKER_HOST": f"tcp://127.0.0.1:{port}", **tls})
        stream = engine.events(f"launcher.test={token}")
        got: list[object] = []
        thread = _in_another_thread(lambda: got.extend(stream))
        stream.close()
        thread.join(timeout=60)
        assert not thread.is_alive()
        assert got == []
        engine.close()


def test_closing_ends_a_followed_log_at_once(own: Bench):
    stream = own.engine.log_frames(own.sh("echo up; sleep 1000"), follow=True)
    assert next(stream) == ("stdout", b"up\n")
    thread = _in_another_thread(lambda: list(stream))
    stream.close()
    thread.join(timeout=60)
    assert not thread.is_alive()


def test_an_unread_stream_leaves_the_client_usable(own: Bench):
    own.engine.events(own.label).close()
    stream = own.engine.events(own.label)
    del stream
    assert own.engine.containers(own.label) == []


def test_reading_the_log_of_a_missing_container_is_an_error(own: Bench):
    with pytest.raises(NotFound, match="no-such-container"):
        own.engine.log_frames("no-such-container")


def test_log_frames_are_whole_wherever_the_received_pieces_were_cut():
    sent = b"\1\0\0\0\0\0\0\3one\2\0\0\0\0\0\0\4four\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\2no"
    expected = [("stdout", b"one"), ("stderr", b"four"), ("stdout", b""), ("stdout", b"no")]
    for size in range(1, len(sent) + 1):
        pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
        assert list(frames(pieces)) == expected
    assert list(frames([sent[:-1]])) == expected[:-1]


def test_json_objects_are_whole_wherever_the_received_pieces_were_cut():
    sent = b'{"a": 1}\r\n{"b": "\xc3\xa4"}\n{"c": 3}'
    for size in range(1, len(sent) + 1):
        pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
        assert list(objects(pieces)) == [{"a": 1}, {"b": "ä"}, {"c": 3}]


def _pieces(sent: bytes, size: int) -> Callable[[], bytes]:
    left = [sent[at : at + size] for at in range(0, len(sent), size)]
    return lambda: left.pop(0) if left else b""


def test_http_chunks_are_whole_wherever_the_reads_were_cut():
    sent = b"3\r\none\r\nA;x=1\r\ntwo\r\nthree\r\n0\r\n\r\n"
    for size in range(1, len(sent) + 1):
        assert b"".join(dechunked(_pieces(sent, size))) == b"onetwo\r\nthree"
    assert list(dechunked(_pieces(sent, len(sent)))) == [b"onetwo\r\nthree"]


def test_http_chunks_without_an_end_are_an_error_after_the_received_ones():
    for sent in (b"3\r\none\r\n", b"3\r\none\r\n5\r\ntw", b"3\r\none\r\n5"):
        found = dechunked(_pieces(sent, len(sent)))
        assert next(found) == b"one"
        with pytest.raises(IncompleteRead):
            next(found)


def _first_event(engine: Engine, label: str) -> str:
    with engine.events(label) as stream:
        return next(stream).action


def _first_line(engine: Engine, label: str) -> str:
    [made] = [each for each in engine.containers(label) if each.state == "running"]
    with engine.log_frames(made.id) as stream:
        return next(iter(stream))[1].decode().strip()


@pytest.mark.parametrize(("path", "first"), [("/events", _first_event), ("/logs", _first_line)])
def test_a_peer_that_takes_a_request_and_never_answers_is_asked_again(
    own: Bench,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    first: Callable[[Engine, str], str],
) -> None:
    """The peer is silent twice, as a proxy whose engine is gone; then it answers."""
    own.sh("echo start; sleep 1000")
    monkeypatch.setitem(streams.LIVE, "timeout", 0.3)
    with monkeypatch.context() as way, Proxy(tmp_path / "p.sock", everything) as silent:

        def delay_s(_method: str, asked: str) -> float:
            return 3600.0 if path in asked and sum(path in each for each in silent.seen) <= 2 else 0.0

        silent.delay_s = delay_s
        way.setenv("DOCKER_HOST", silent.host)
        found: list[str] = []
        asked = _in_another_thread(
            lambda: found.append(Patience(silent.host).persist(lambda: first(connect(), own.label)))
        )
        while sum(path in each for each in silent.seen) < 3:
            time.sleep(0.05)
        for k in range(1, 60):  # a slow engine is asked again, from the next event on
            own.create("true", k=k)
            asked.join(0.5)
            if not asked.is_alive():
                break
    assert found in (["start"], ["create"])
