"""The probes of one run of a replica: their pauses, and the reasons why the replica is not ready."""

import pytest

from launcher.schedulers.probes import UNPROBED, Probing, bad_answer, bad_end, no_file, old_file


def test_pauses_between_probes_double_up_to_the_pause_of_the_role() -> None:
    probing = Probing({"port": 80, "every": 0.05})
    assert [probing.pause_s() for _ in range(5)] == [0.01, 0.02, 0.04, 0.05, 0.05]


def test_the_sentence_about_a_late_replica_names_the_time_limit_and_the_reason() -> None:
    probing = Probing({"port": 80, "timeout": 2.5})
    assert probing.late() == f"not ready after 2.5 s: {UNPROBED}"
    assert UNPROBED == "it was not probed yet"
    probing.why = "nothing listens on port 80"
    assert probing.late() == "not ready after 2.5 s: nothing listens on port 80"
    assert Probing({"port": 80}).late() == f"not ready after 60 s: {UNPROBED}"


@pytest.mark.parametrize(("last", "why"), [
    (UNPROBED, "GET / on port 80 has no answer yet"),
    ("nothing listens on port 80", "GET / on port 80 has no answer yet"),
    ("GET / on port 80 answers 503", "GET / on port 80 answers 503"),
])  # fmt: skip
def test_a_waiting_request_does_not_hide_the_answer_to_an_earlier_request(last: str, why: str) -> None:
    probing = Probing({"http": "/", "port": 80})
    probing.why = last
    probing.note_wait("GET / on port 80", "has no answer yet")
    assert probing.why == why


@pytest.mark.parametrize(("answer", "why"), [
    (b"HTTP/1.1 200 OK", ""), (b"HTTP/1.0 302 Found", ""), (b"HTTP/1.1 404", "answers 404"),
    (b"HTTP/1.1 ", "has an answer that is not HTTP"),
    (b"220 mail.example.org ESMTP", "has an answer that is not HTTP"), (b"", "has no answer"),
])  # fmt: skip
def test_an_answer_is_good_with_2xx_and_3xx(answer: bytes, why: str) -> None:
    assert bad_answer(answer) == why


@pytest.mark.parametrize(
    ("code", "why"), [(0, ""), (3, "`check` exited with 3"), (-9, "`check` was killed by signal 9")]
)
def test_a_command_has_to_exit_with_0(code: int, why: str) -> None:
    assert bad_end("check", code) == why


def test_a_file_that_is_missing_or_of_an_earlier_run_is_named() -> None:
    assert no_file("up") == "there is no file up"
    assert old_file("up") == "the file up is older than the replica"
