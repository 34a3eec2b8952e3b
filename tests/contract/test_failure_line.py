"""Contract: the message of a failure has the program's last line of stderr, and never a secret's value."""

import pytest

from launcher.specs import Secret
from tests.contract.conftest import Case


def test_a_failure_shows_the_last_line_of_stderr(case: Case) -> None:
    described = case.run(case.app("echo out; echo first >&2; echo 'no such file: x' >&2; exit 17"))
    assert described.msg == "r/0 exited with 17: no such file: x"
    seen = case.another().record(described.app_id)
    assert seen.message == described.msg


@pytest.mark.everywhere
def test_the_shown_line_has_no_secret_and_no_terminal_control(case, monkeypatch):
    monkeypatch.setenv("TEST_TOKEN", "hunter2")
    script = r"""printf 'bad \033]0;x\007%s\n' "$TOKEN" >&2; exit 3"""
    described = case.run(case.app(script, env={"TOKEN": Secret.parse("env:TEST_TOKEN")}))
    assert described.msg == r"r/0 exited with 3: bad \x1b]0;x\x07***"
