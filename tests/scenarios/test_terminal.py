"""Apply at a terminal shows the plan, asks, and changes nothing unless the answer is yes."""

import re

import pytest

from tests.terminals import launcher


def at_a_terminal(scenario, *argv, answer, meanwhile=lambda: None):
    """Run `launcher ARGV` on a terminal of its own and type `answer` at its question. Code and output."""
    session = launcher(scenario, *argv, is_controlling=True)
    is_asked = False
    while session.read():
        if not is_asked and b"[y/N]" in session.shown:
            is_asked = True
            meanwhile()
            session.type(answer)
    return session.process.wait(), session.end(code=None)


@pytest.mark.parametrize(("answer", "code"), [
    (b"\n", 3), (b"\x03", 130), pytest.param(b"n\n", 3, marks=pytest.mark.slow),
    pytest.param(b"\x04", 3, marks=pytest.mark.slow),
])  # fmt: skip
def test_an_answer_other_than_yes_changes_nothing(scenario, answer, code):
    got, shown = at_a_terminal(scenario, "apply", scenario.job("true"), answer=answer)
    assert got == code
    assert "1 to create" in shown
    assert scenario.apps() == scenario.attempts() == []


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


def test_an_apply_is_refused_when_a_workspace_is_edited_while_it_asks(scenario):
    code_file = scenario.write("src/train.py", "print(1)")
    file = scenario.job("true", top="workspace: src")
    code, shown = at_a_terminal(
        scenario, "apply", file, answer=b"y\n", meanwhile=lambda: code_file.write_text("print(2)")
    )
    assert code == 4
    assert "the workspace `src` is not what was planned" in shown
    assert scenario.apps() == scenario.attempts() == []


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
    session = launcher(scenario, *argv)
    for k in range(2):
        session.until(rb"main/%d \|[^\n]* 10%%" % k)
    assert b"100%" not in session.shown
    for gate in gates:
        gate.open()
    session.end()
    _, _, shown = session.shown.rpartition(b"Digest:")  # the plan shows the script
    for row in re.split(rb"\r?\n|\x1b\[\d+A|\x1b\[J", shown):
        assert b"0%" not in row or re.search(rb"main/[01] \|", row), row
    assert scenario.logs("job").splitlines().count("main/0 | 100%") == 1
