"""The lines of `grep`: hostile output drives no terminal, and changes no byte in a pipe."""

import json

import pytest

from launcher.cli.grep import MatchText, json_lines
from launcher.cli.log_reader import AttemptNames
from launcher.inventory.search import FoundLine
from launcher.schedulers.logs import LineSearch, LogBlock
from launcher.state.records import AppRecord

HOSTILE = b"a\0b \x1b[31mred\x1b[2J \x1b]0;title\x07 \xff\x9b5n nan\n"


def app(project="here", target="default"):
    return AppRecord("local_cwd", project, "train-2-abcde", key=(project, target, "train"), number=2)


def line(text, *, is_match=True, start=0):
    return FoundLine(LogBlock(text, lambda at: (0, "stdout", 1)), start, (0, len(text)), is_match=is_match)


def shown(text, regex="nan", *, color=True, has_headings=True, role="main"):
    made = MatchText(
        AttemptNames({"here"}),
        LineSearch(regex).pattern,
        color=color,
        has_headings=has_headings,
        has_context=False,
    )
    made.begin(app(), role, 0)
    return made.lines(line(text))


def test_hostile_output_drives_no_terminal():
    found = shown(HOSTILE)
    assert b"\x1b[1;31mnan\x1b[0m" in found
    assert found.endswith(b"\x1b[0m\n")  # a colour of the output ends with its line
    for part in (b"\0", b"\x1b[2J", b"\x1b]", b"\x07", b"\x9b"):
        assert part not in found


@pytest.mark.parametrize("regex", [r"\[31", "31mred", "\ufffd", "b.*n", "", "."])
def test_a_match_within_a_control_sequence_breaks_nothing(regex):
    found = shown(HOSTILE, regex)
    assert b"\x1b]" not in found
    assert b"\x1b[2J" not in found


def test_output_in_a_pipe_is_unchanged():
    found = shown(HOSTILE, color=False, has_headings=False)
    assert found.startswith(b"train@2/main/0 | ")
    assert found.endswith(HOSTILE)


def test_a_role_that_an_engine_names_is_escaped():
    assert b"\x1b]" not in shown(b"nan\n", role="\x1b]0;x\x07", has_headings=False, color=False)


def test_the_last_matching_state_of_a_progress_bar_is_shown():
    bar = b"1% loss=2\r2% loss=nan\r3% loss=1\r\n"
    assert shown(bar, "loss=nan", color=False, has_headings=False).endswith(b" 2% loss=nan\n")
    assert shown(bar, "1%.*3%", color=False, has_headings=False).endswith(b" 3% loss=1\n")


def test_json_holds_one_object_for_each_line():
    found = json_lines(app(), "main", 0, line(b"nan 1\nnan \xff\n"), LineSearch("nan").pattern)
    assert [json.loads(each)["text"] for each in found.split("\n")] == ["nan 1", "nan \ufffd"]


def test_groups_of_lines_are_set_apart():
    search = LineSearch("x").pattern
    made = MatchText(AttemptNames(()), search, color=False, has_headings=False, has_context=True)
    made.begin(app(), "main", 0)
    parts = [
        made.lines(line(b"x\n")),
        made.lines(line(b"y\n", is_match=False, start=2)),
        made.lines(line(b"x\n", start=9)),
    ]
    assert [part.startswith(b"--\n") for part in parts] == [False, False, True]
    assert b" - " in parts[1]


def test_a_job_of_another_project_is_named_by_its_app_id():
    names = AttemptNames({"here"})
    assert names.of(app()) == "train@2"
    assert names.of(app("other")) == names.of(app(target="docker")) == "train-2-abcde"
    assert AttemptNames({"here"}, "docker").of(app(target="docker")) == "train@2"
