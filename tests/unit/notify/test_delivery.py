import socket
import threading
import time

import pytest

from launcher import notify
from launcher.errors import LauncherError, SecretError
from launcher.notify import DeliveryError, body_of, deliver, deliver_all, id_of
from launcher.specs.notify import Destination, MalformedAddressError, check_address, key_bytes, parse
from launcher.state.records import AppRecord
from tests.sink import Sink

ID = id_of("train-1-abcde", "failed", "0123456789")


@pytest.fixture
def body() -> str:
    key = ("p", "default", "train")
    app = AppRecord("local_cwd", "p", "train-1-abcde", key=key, number=1, state="failed")
    app.message, app.ended_at = "main/0 exited with 3: \x1b[31mbo\u00f6m", 1.5
    return body_of(app)


def test_a_request_carries_the_headers_and_the_signature_of_standard_webhooks(sink, body):
    deliver(Destination(url=sink.url, secret="env:HOOK_KEY"), ID, body, "/")
    [(id, data)] = sink.wait()
    assert (id, data["type"], data["data"]["job"]) == (ID, "attempt.failed", "train")
    assert not {"\n", "\x1b"} & {*body}
    assert data["data"]["message"] == "main/0 exited with 3: \x1b[31mbo\u00f6m"


def test_a_url_may_be_a_secret_itself(sink, body, monkeypatch):
    monkeypatch.setenv("HOOK_URL", sink.url)
    deliver(Destination(url="env:HOOK_URL", secret="env:HOOK_KEY"), ID, body, "/")
    assert sink.wait()


@pytest.mark.parametrize("value", ["file:///etc/passwd", "env:HOME", "ftp://example.com", "no url"])
def test_a_reference_leads_to_http_alone(value, body, monkeypatch):
    monkeypatch.setenv("HOOK_URL", value)
    with pytest.raises(SecretError) as raised:
        deliver(Destination(url="env:HOOK_URL"), ID, body, "/")
    assert value not in str(raised.value)


@pytest.mark.parametrize("status", [302, 400, 410, 503])
def test_only_an_answer_2xx_counts_and_410_ends_the_tries(status, sink, body):
    with Sink() as other:
        sink.answer, sink.location = status, other.url if status == 302 else ""
        with pytest.raises(DeliveryError, match=f"HTTP status {status}") as raised:
            deliver(Destination(url=sink.url, secret="env:HOOK_KEY"), ID, body, "/")
        assert raised.value.is_final == (status == 410)
        assert other.got == other.refused == []


def test_an_error_names_neither_the_address_nor_the_key(body, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # refuses connections: it does not listen
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/secret-path"
        monkeypatch.setenv("HOOK_URL", url)
        with pytest.raises(DeliveryError) as raised:
            deliver(Destination(url="env:HOOK_URL"), ID, body, "/")
    assert str(raised.value) == "Connection refused"


def test_a_receiver_that_never_finishes_its_answer_counts_as_silent(body, monkeypatch):
    monkeypatch.setattr(notify, "URL_S", 0.2)
    monkeypatch.setattr(notify, "_MARGIN_S", 0.2)
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            client, _ = server.accept()
            with client:
                while not over.wait(0.05):  # each byte comes before the limit of a read
                    client.send(b"H")

        threading.Thread(target=drip, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        [error] = deliver_all([(Destination(url=url), ID, body, "/")])
        over.set()
    assert isinstance(error, DeliveryError)


def test_a_command_gets_the_body_and_the_id_and_no_shell_reads_its_arguments(body, tmp_path):
    command = ("sh", "-c", 'cat >"$1"; echo "$WEBHOOK_ID" >id', "sh", "$(touch no); body")
    deliver(Destination(command=command), ID, body, str(tmp_path))
    names = sorted(path.name for path in tmp_path.iterdir() if path.is_file())
    assert names == ["$(touch no); body", "id"]
    assert (tmp_path / "$(touch no); body").read_text() == body
    assert (tmp_path / "id").read_text() == f"{ID}\n"


@pytest.mark.parametrize("command", [("sh", "-c", "exit 3"), ("no-such-program",), ("sleep", "1000")])
def test_a_command_that_fails_or_takes_too_long_has_not_taken_the_outcome(command, body, monkeypatch):
    monkeypatch.setattr(notify, "COMMAND_S", 0.2)
    began = time.monotonic()
    with pytest.raises(DeliveryError):
        deliver(Destination(command=command), ID, body, "/")
    assert time.monotonic() - began < 100


WRONG = (
    "ftp://example.com", "https://", "https://user:word@example.com", "https://e.com/a b", "env:", "file:",
    "",
)  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_an_address_of_another_form_is_refused_without_being_repeated(text):
    with pytest.raises(MalformedAddressError) as raised:
        check_address(text)
    assert len(text) < 8 or text not in str(raised.value)


@pytest.mark.parametrize("key", ["whsec_", "whsec_?", "c2VjcmV0", ""])
def test_a_malformed_key_is_refused_without_being_repeated(key):
    with pytest.raises(MalformedAddressError) as raised:
        key_bytes(key)
    assert len(key) < 8 or key not in str(raised.value)


def test_the_words_of_a_command_line_are_a_url_a_reference_or_a_command():
    url, command = "https://example.com/x", ("mail", "-s", "it ended", "me")
    assert parse(url, secret="env:KEY", folder="/w") == Destination(url=url, secret="env:KEY")
    assert parse("env:HOOK_URL", folder="/w") == Destination(url="env:HOOK_URL")
    assert parse("mail -s 'it ended' me", folder="/w") == Destination(command=command, folder="/w")
    for wrong in ("", "mail 'it", "ftp://example.com"):
        with pytest.raises(LauncherError):
            parse(wrong, folder="/w")
