"""Apply at a terminal shows the plan, asks, and changes nothing unless the answer is yes."""

import os
import pty
import re
import sys

import pytest

CONTROLLED = (
    "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "os.execv(sys.executable, [sys.executable, '-m', 'launcher', *sys.argv[1:]])"
)


def at_a_terminal(scenario, *argv, answer, meanwhile=lambda: None):
    """Run `launcher ARGV` on a terminal of its own and type `answer` at its question. Code and output."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", CONTROLLED, *map(str, argv)]
    process = scenario.spawn(command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    while chunk := read(ours):
        asked = b"[y/N]" not in shown and b"[y/N]" in shown + chunk
        shown += chunk
        if asked:
            meanwhile()
            os.write(ours, answer)
    os.close(ours)
    return process.wait(), shown.decode()


def read(fd):
    try:
        return os.read(fd, 4096)
    except OSError:  # how Linux reports that the other end of a terminal is closed
        return b""


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"\n", 3),
        (b"\x03", 130),
        pytest.param(b"n\n", 3, marks=pytest.mark.slow),
        pytest.param(b"\x04", 3, marks=pytest.mark.slow),
    ],
)
def test_an_answer_other_than_yes_changes_nothing(scenario, answer, code):
    got, shown = at_a_terminal(scenario, "apply", scenario.job("true"), answer=answer)
    assert got == code
    assert "1 to create" in shown
    assert scenario.apps() == scenario.attempts() == []


@pytest.mark.slow
def test_the_answer_yes_applies_the_plan_and_shows_progress(scenario):
    got, shown = at_a_terminal(scenario, "apply", scenario.job("true"), "--wait", answer=b"y\n")
    assert got == 0
    assert "SUCCEEDED" in shown
    assert [attempt.state for attempt in scenario.attempts()] == ["succeeded"]


@pytest.mark.slow
def test_an_apply_without_changes_asks_no_question(scenario):
    file = scenario.job("true")
    scenario.run_to_end(file)
    code, shown = at_a_terminal(scenario, "apply", file, answer=b"")
    assert (code, "[y/N]" in shown) == (0, False)


def test_approval_at_a_terminal_covers_stopping_a_running_attempt(scenario):
    file, _ = scenario.running()
    scenario.job("true")
    got, shown = at_a_terminal(scenario, "apply", file, "--wait", answer=b"y\n")
    assert got == 0, shown
    assert [attempt.state for attempt in scenario.attempts()] == ["cancelled", "succeeded"]


@pytest.mark.slow
def test_an_apply_is_refused_when_the_jobs_change_while_it_asks(scenario):
    file = scenario.job("true")
    code, _ = at_a_terminal(
        scenario, "apply", file, answer=b"y\n", meanwhile=lambda: scenario.run_to_end(file)
    )
    assert code == 4
    assert len(scenario.attempts()) == 1


@pytest.mark.slow
def test_output_has_no_colour_without_a_terminal_or_with_no_color(scenario, monkeypatch):
    file = scenario.job("true")
    assert "\x1b" not in scenario.plan(file)
    assert "\x1b[" in at_a_terminal(scenario, "plan", file, answer=b"")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in at_a_terminal(scenario, "plan", file, answer=b"")[1]


BARS = r"printf '\r 10%%'; read x <gate$<replica_id>.leave; printf '\r100%%\ndone\n'"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["apply", "logs"])
def test_progress_bars_of_two_replicas_are_shown_with_prefixes_before_their_lines_end(
    scenario, command, monkeypatch
):
    monkeypatch.setenv("TERM", "xterm")
    gates = [scenario.gate(f"gate{k}") for k in range(2)]
    file = scenario.job(BARS, replicas=2)
    argv = ["apply", file, "--yes", "--wait", "--logs"]
    if command == "logs":
        scenario.apply(file)
        argv = ["logs", "job", "--follow"]
    ours, theirs = pty.openpty()
    process = scenario.spawn(
        [sys.executable, "-m", "launcher", *map(str, argv)], stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    while not all(re.search(rb"main/%d \|[^\n]* 10%%" % k, shown) for k in range(2)):
        chunk = read(ours)
        assert chunk, shown
        shown += chunk
    assert b"100%" not in shown
    for gate in gates:
        gate.open()
    while chunk := read(ours):
        shown += chunk
    os.close(ours)
    assert process.wait() == 0
    _, _, shown = shown.rpartition(b"Digest:")  # the plan shows the script
    for row in re.split(rb"\r?\n|\x1b\[\d+A|\x1b\[J", shown):
        assert b"0%" not in row or re.search(rb"main/[01] \|", row), row
    assert scenario.logs("job").splitlines().count("main/0 | 100%") == 1
