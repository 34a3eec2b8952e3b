"""What a message advises is right: written into the file as it stands there, the file is valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.jobfile.words import HEAD, ROLES, compile_text, lines

TOML_HEAD = 'version = 1\nname = "job"\n'
ROLE = HEAD + "roles:\n  main:\n    entrypoint: sh\n"
TOML_ROLE = TOML_HEAD + '[roles.main]\nentrypoint = "sh"\n'


def name_for(text: str) -> str:
    return "job.launcher.toml" if "version =" in text else "job.launcher.yaml"


def advised(folder: Path, text: str) -> str:
    """What the only problem of a text says to write."""
    (found,) = compile_text(folder, text, name=name_for(text)).diagnostics
    advice = found.label if "write " in found.label else found.hint
    return advice.partition("write ")[2].partition(": it is read")[0]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (ROLE + "    args: \"-c 'echo hi there'\"\n", "\"-c 'echo hi there'\""),
        (ROLE + "    args: -c ls\n", "-c ls"),
        (ROLE + "    mounts: type=bind,src=./a,dst=/a\n", "type=bind,src=./a,dst=/a"),
        (ROLE + "    mounts: {type: bind, src: ./a, dst: /a}\n", "{type: bind, src: ./a, dst: /a}"),
        (ROLE + "    mounts: [3]\n", "3"),
        (HEAD + ROLES + "lifecycle:\n  rerun_on: data/*.csv\n", "data/*.csv"),
        (HEAD + ROLES + "lifecycle:\n  rerun_on: [data/*.csv]\n", "data/*.csv"),
        (HEAD + ROLES + "lifecycle:\n  rerun_on: {files: data/*.csv}\n", "{files: data/*.csv}"),
        (HEAD + ROLES + "lifecycle:\n  rerun_on: [{files: a.csv b.csv}]\n", "a.csv b.csv"),
        (HEAD + ROLES + "lifecycle:\n  rerun_on: every_apply\n", "every_apply"),
        (HEAD + "vars: {v: 0.5}\nroles: {main: {entrypoint: $<var.v>}}\n", "0.5"),
        (
            HEAD + "vars: {v: {type: int, default: 1, choices: '1, 2'}}\n"
            "roles: {main: {entrypoint: $<var.v>}}\n",
            "'1, 2'",
        ),
        (HEAD + "matrix: {lr: 0.1}\nroles: {main: {entrypoint: $<matrix.lr>}}\n", "0.1"),
        (TOML_ROLE + "args = \"-c 'echo hi there'\"\n", "\"-c 'echo hi there'\""),
        (TOML_ROLE + "mounts = [3]\n", "3"),
        (TOML_ROLE + '[lifecycle]\nrerun_on = "data/*.csv"\n', '"data/*.csv"'),
        (TOML_ROLE + '[lifecycle]\nrerun_on = ["data/*.csv"]\n', '"data/*.csv"'),
        (TOML_ROLE + 'args = ["$<var.v>"]\n[vars]\nv = 0.5\n', "0.5"),
        (TOML_ROLE + 'args = ["$<matrix.lr>"]\n[matrix]\nlr = "a"\n', '"a"'),
        (TOML_ROLE + 'env = {API_TOKEN = "abc"}\n', '"abc"'),
    ],
)
def test_what_it_says_to_write_is_valid_there(tmp_path: Path, text: str, wrong: str) -> None:
    right = advised(tmp_path, text)
    assert right != ""
    assert lines(compile_text(tmp_path, text.replace(wrong, right), name=name_for(text))) == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (HEAD + "role:\n  main: {entrypoint: sh}\n", "role"),
        (HEAD.replace("name", "nam") + ROLES, "nam"),
        (HEAD.replace("version", "verison") + ROLES, "verison"),
        (HEAD + "roles:\n  main: {entrypont: sh}\n", "entrypont"),
        (HEAD + "roles:\n  main: {command: sh}\n", "command"),
        (ROLE + "    mounts: [{typ: bind, src: ./a, dst: /a}]\n", "typ"),
        (ROLE + "    mounts: [{type: bind, source: ./a, dst: /a}]\n", "source"),
        (TOML_HEAD + '[role.main]\nentrypoint = "sh"\n', "role"),
    ],
)
def test_a_key_near_a_missing_one_is_a_slip_and_nothing_else(tmp_path: Path, text: str, wrong: str) -> None:
    (found,) = compile_text(tmp_path, text, name=name_for(text)).diagnostics
    assert (found.code, found.hint) == ("unknown-field", "")
    meant = re.fullmatch(r"did you mean `(\w+)`\?", found.label)
    assert meant
    text = text.replace(wrong, meant[1], 1)
    assert lines(compile_text(tmp_path, text, name=name_for(text))) == []


def test_a_command_is_split_as_the_format_writes_it(tmp_path: Path) -> None:
    text = TOML_HEAD + '[roles.main]\nentrypoint = "sh -c ls"\n'
    (found,) = compile_text(tmp_path, text, name=name_for(text)).diagnostics
    fields = re.findall("`([^`]*)`", found.hint)
    assert fields == ['entrypoint = "sh"', 'args = ["-c", "ls"]']
    right = text.replace('entrypoint = "sh -c ls"', "\n".join(fields))
    assert lines(compile_text(tmp_path, right, name=name_for(text))) == []


@pytest.mark.parametrize(
    "later", ['[roles.main.env]\nA = "b"\n', 'roles.main.env.A = "b"\n', '[roles.main.env.deeper]\nA = "b"\n']
)
def test_a_toml_table_in_braces_is_not_called_a_key_that_stands_twice(tmp_path: Path, later: str) -> None:
    text = TOML_HEAD + 'roles.main = {entrypoint = "sh"}\n' + later
    (found,) = compile_text(tmp_path, text, name=name_for(text)).diagnostics
    assert found.code == "toml-syntax"
    assert found.message == "`roles.main` ends with its braces: nothing can be added to it here"
    assert found.label == "write this between its braces"
    right = TOML_HEAD + 'roles.main = {entrypoint = "sh", env = {A = "b"}}\n'
    assert lines(compile_text(tmp_path, right, name=name_for(text))) == []
    assert "[roles.main] instead of braces" in found.hint
    right = TOML_HEAD + '[roles.main]\nentrypoint = "sh"\n[roles.main.env]\nA = "b"\n'
    assert lines(compile_text(tmp_path, right, name=name_for(text))) == []


MOUNTED = HEAD + "component: utils.sh\nargs:\n  args: [ls]\n  image: busybox:1\n  mounts:"
IN_ONE = "type=bind,src=/host,dst=/job,readonly"


@pytest.mark.parametrize(
    "written",
    [f"\n  - {IN_ONE}\n  - {IN_ONE.replace('/job', '/more')}", f" ['{IN_ONE}']", f" [{IN_ONE}]"],
)
def test_a_component_takes_mounts_as_its_help_shows_them(tmp_path: Path, written: str) -> None:
    assert lines(compile_text(tmp_path, MOUNTED + written + "\n")) == []


def test_mounts_of_a_component_in_one_text_are_shown_as_a_list(tmp_path: Path) -> None:
    text = MOUNTED + f" {IN_ONE}\n"
    assert advised(tmp_path, text) == f'["{IN_ONE}"]'
    assert lines(compile_text(tmp_path, text.replace(IN_ONE, advised(tmp_path, text)))) == []


@pytest.mark.parametrize(
    ("written", "place"),
    [(f"\n  - {IN_ONE}\n  - type=bnd,src=/a,dst=/b", "9:5"), (" [type=bnd, src=/a, dst=/b]", "7:11")],
)
def test_a_wrong_mount_of_a_component_is_shown_where_it_stands(
    tmp_path: Path, written: str, place: str
) -> None:
    (found,) = compile_text(tmp_path, MOUNTED + written + "\n").diagnostics
    assert (f"{found.span.line}:{found.span.column}" if found.span else "", found.label or found.hint) == (
        place,
        "did you mean `bind`?",
    )
