"""Text of job files, file names and engines cannot drive the terminal, whichever command shows it."""

import random
import re
import subprocess
import sys

import pytest

from launcher.cli.render.apps import _below
from launcher.cli.render.markdown import plan_markdown
from launcher.cli.render.terminal_text import TerminalText, terminal_text
from launcher.cli.render.values import table
from tests.terminals import launcher
from tests.unit.cli.worlds import attempt, launch, plan

ESCAPE = "\x1b[2J\x07\x9b5n"

JOB = r"""
version: 1
name: job
description: "d \e[2J\a\x9b5n"
scheduler: local_cwd
vars:
  v: {type: str, default: "v \e[2J\a\x9b5n", help: "h \e[2J\a\x9b5n"}
metadata: {"k \e[2J\a\x9b5n": "m \e[2J\a\x9b5n"}
roles:
  main:
    entrypoint: "ENTRYPOINT"
    args: ["a \e[2J\a\x9b5n", $<var.v>]
    env: {E: "e \e[2J\a\x9b5n"}
    metadata: {"r \e[2J\a\x9b5n": "x \e[2J\a\x9b5n"}
"""
BAD = JOB.replace("scheduler: local_cwd", r'"s \e[2J\a\x9b5n": "t \e[2J\a\x9b5n"')


def write(scenario, name: str, text: str) -> str:
    (scenario.folder / name).write_text(text.lstrip())
    return name


@pytest.fixture
def files(scenario):
    """Job files by their purpose; the name of one file is hostile, too."""
    return {
        "GOOD": write(scenario, "good.launcher.yaml", JOB.replace("ENTRYPOINT", "true")),
        "BAD": write(scenario, f"bad{ESCAPE}.launcher.yaml", BAD),
        "GONE": write(scenario, "gone.launcher.yaml", JOB.replace("ENTRYPOINT", r"no \e[2J\a\x9b5n")),
    }


def assert_clean(shown: str) -> None:
    assert [char for char in shown if not char.isprintable() and char not in "\n\t"] == []


@pytest.mark.slow
def test_no_command_sends_control_characters_of_a_job_file(scenario, files):
    commands = [
        *(("validate", "GOOD", "BAD", "--format", f) for f in ("text", "json", "sarif", "github")),
        *(("plan", "GOOD", "--show-request", "--format", f) for f in ("text", "markdown", "json", "github")),
        *(("plan", "BAD", "--format", f) for f in ("text", "github", "sarif")),
        ("compile", "GOOD"),
        ("compile", "GOOD", "--json"),
        ("fmt", "--check", "GOOD", "BAD"),
        ("fmt", "--diff", "GOOD"),
        ("apply", "GONE", "--yes"),
        ("apply", "GOOD", "--yes", "--wait"),
        ("apply", "GOOD", "--yes", "--rerun", f"x{ESCAPE}"),
        ("run", "GONE"),
        ("run", f"c{ESCAPE}.py:fn"),
        ("run", "-s", f"s{ESCAPE}", "utils.echo"),
        ("run", "utils.echo", "--msg", f"m{ESCAPE}", "--dryrun"),
        ("describe", "job"),
        ("describe", "job", "--json"),
        ("status", "job"),
        ("list",),
        ("list", "--json"),
        *(
            (command, f"x{ESCAPE}")
            for command in ("status", "logs", "cancel", "wait", "describe", "validate")
        ),
        (f"x{ESCAPE}",),
        ("explain", f"x{ESCAPE}"),
    ]
    for command in commands:
        done = scenario.launcher(*(files.get(word, word) for word in command), code=None)
        shown = done.out + done.err
        assert shown.strip(), command
        assert_clean(shown)
    assert "\\x1b[2J" in scenario.launcher("describe", "job").out


@pytest.mark.slow
def test_the_output_of_a_replica_reaches_a_pipe_byte_for_byte(scenario):
    raw = b"\x1b[2J\xff\x9b\r\n"
    file = scenario.job(r"printf '\033[2J\377\233\r\n'")
    for words in (["apply", file, "--yes", "--wait", "--logs"], ["logs", "job"]):
        argv = [sys.executable, "-m", "launcher", *words]
        shown = subprocess.run(argv, capture_output=True, check=True, cwd=scenario.folder).stdout
        assert raw in shown
        assert words[0] != "logs" or shown == raw


def test_a_cell_is_one_line_and_as_wide_as_it_is_shown():
    lines = table(["A", "B"], [["x\ny\x1b[2J", "1"], ["z", "2"]]).splitlines()
    assert lines == ["A            B", "x\\ny\\x1b[2J  1", "z            2"]


def test_further_lines_of_a_fact_cannot_forge_another_fact():
    assert _below("a\nwhy  all is well", 3) == "a\n" + " " * 7 + "why  all is well"


@pytest.mark.parametrize(
    "value", ["```\n</details>", "````", "x\n```", "![a](http://b/c.png)", "a\\|b", "<img src=x>"]
)
def test_a_value_breaks_out_of_no_table_and_no_fence(value):
    text = plan_markdown(plan([launch("a", args=(value,))]))
    [fence] = [line.removesuffix("diff") for line in text.splitlines() if line.endswith("`diff")]
    assert [row for row in text.splitlines() if row.strip("`") == "" and len(row) >= len(fence)] == [fence]
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert all(_cells(row) == 6 for row in rows)
    assert "![a](" not in "".join(rows)


def _cells(row: str) -> int:
    """Yield the cells of a row by the rule of GFM: a backslash escapes the next character."""
    bars = skip = 0
    for char in row:
        bars += char == "|" and not skip
        skip = char == "\\" and not skip
    return bars - 1


HOSTILE = r"printf 'a\033[31mred\033[0m\033]0;title\007\033[2Jb\302\2335n\n%s\n' größe"
SAFE = "a\x1b[31mred\x1b[0m\\x1b]0;title\\x07\\x1b[2Jb\\x9b5n\r\ngröße\r\n"


@pytest.mark.slow
@pytest.mark.parametrize(("words", "replicas"), [
    (["logs", "job"], 1), (["logs", "job", "--follow"], 2), (["logs", "job", "--timestamps"], 1),
    (["run", "FILE"], 1), (["run", "FILE"], 2),
    (["apply", "FILE", "--yes", "--wait", "--logs", "--rerun", "job"], 1),
    (["apply", "FILE", "--yes", "--wait", "--logs", "--rerun", "job"], 2),
])  # fmt: skip
def test_the_output_of_a_replica_cannot_drive_the_terminal(scenario, words, replicas, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    file = str(scenario.job(HOSTILE, replicas=replicas))
    scenario.run_to_end(file)
    shown = launcher(scenario, *(file if word == "FILE" else word for word in words)).end()
    for part in ("\x1b[31mred\x1b[0m\\x1b]0;title\\x07\\x1b[2Jb\\x9b5n\r\n", "größe\r\n"):
        assert shown.count(part) == replicas
    if words == ["logs", "job"]:
        assert shown == SAFE
    assert not any(part in shown for part in ("\x1b]", "\x1b[2J", "\x07", "\x9b"))


def test_raw_output_reaches_the_terminal(scenario):
    scenario.run_to_end(scenario.job(HOSTILE))
    assert "\x1b]0;title\x07\x1b[2Jb\x9b5n" in launcher(scenario, "logs", "job", "--raw").end()


def test_a_sequence_is_known_wherever_the_output_is_cut():
    rng = random.Random(3)
    whole = b"\x1b[1;31mx\x1b[0m\x1b[K\x1b]52;c;eA==\x07\xc2\x9b6n\xff\xe2\x82\xac\x1b[3\n1m\x9b2J\r\b\x1b"
    expected = rb"\x1b]52;c;eA==\x07\x9b6n"
    for _ in range(300):
        text, rest, made = TerminalText(), whole, b""
        while rest:
            size = rng.randrange(1, 6)
            made, rest = made + text.feed(rest[:size]), rest[size:]
        made += text.finish()
        assert made == terminal_text(whole)
        end = expected + b"\xff\xe2\x82\xac" + rb"\x1b[3" + b"\n1m"
        assert made.startswith(b"\x1b[1;31mx\x1b[0m\x1b[K" + end)
        assert made.endswith(rb"\x9b2J" + b"\r\b" + rb"\x1b")


def test_no_bytes_of_output_drive_a_terminal():
    rng = random.Random(5)
    for _ in range(3000):
        pool = rng.choice([bytes(range(256)), b"\x1b[]0123;m\x07\x9b\xc2K\n"])
        made = terminal_text(bytes(rng.choices(pool, k=rng.randrange(30)))).decode("utf-8", "surrogateescape")
        left = re.sub(r"\x1b\[[0-9;:]*[mK]", "", made)
        assert not re.search(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f\udc80-\udc9f]", left)


def test_plain_output_reaches_a_terminal_unchanged():
    for data in (b"a\tb\r\nc 10%\r 20%", "größe €\n".encode()):
        assert terminal_text(data) == data


def test_the_comment_of_a_plan_mentions_no_user_and_no_issue():
    old, new = (launch("train", env={"A @team #1 <b> `c` [d](http:e)": value}) for value in "12")
    page = plan_markdown(plan([new], [attempt(old, "succeeded")]))
    (row,) = [line for line in page.splitlines() if line.startswith("| `+`")]
    assert "A @<!-- -->team #<!-- -->1 &lt;b&gt; \\`c\\` [d]\\(http:e)" in row
