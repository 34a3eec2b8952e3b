"""The advice of a message is right: a file with the advised text is valid."""

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
    """Return the text that the only problem of a file advises to write."""
    (found,) = compile_text(folder, text, name=name_for(text)).diagnostics
    advice = found.label if "write " in found.label else found.hint
    return advice.partition("write ")[2].partition(": it is read")[0]


@pytest.mark.parametrize(("text", "wrong"), [
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
])  # fmt: skip
def test_the_text_that_a_message_advises_is_valid_in_its_place(tmp_path: Path, text: str, wrong: str) -> None:
    right = advised(tmp_path, text)
    assert right != ""
    assert lines(compile_text(tmp_path, text.replace(wrong, right), name=name_for(text))) == []


def test_a_command_is_split_as_the_format_writes_it(tmp_path: Path) -> None:
    text = TOML_HEAD + '[roles.main]\nentrypoint = "sh -c ls"\n'
    (found,) = compile_text(tmp_path, text, name=name_for(text)).diagnostics
    fields = re.findall("`([^`]*)`", found.hint)
    assert fields == ['entrypoint = "sh"', 'args = ["-c", "ls"]']
    right = text.replace('entrypoint = "sh -c ls"', "\n".join(fields))
    assert lines(compile_text(tmp_path, right, name=name_for(text))) == []


MOUNTED = HEAD + "component: utils.sh\nargs:\n  args: [ls]\n  image: busybox:1\n  mounts:"
IN_ONE = "type=bind,src=/host,dst=/job,readonly"


def test_mounts_of_a_component_in_one_text_are_shown_as_a_list(tmp_path: Path) -> None:
    text = MOUNTED + f" {IN_ONE}\n"
    assert advised(tmp_path, text) == f'["{IN_ONE}"]'
    assert lines(compile_text(tmp_path, text.replace(IN_ONE, advised(tmp_path, text)))) == []


@pytest.mark.parametrize(("given", "read"), [
    ("./data:/data:ro", "type=bind,src=./data,dst=/data,readonly"),
    ("/data:/data", "type=bind,src=/data,dst=/data"),
    ("~/data:/data:rw,z", "type=bind,src=~/data,dst=/data"),
    ("cache:/cache", "type=volume,src=cache,dst=/cache"),
    ("/dev/fuse:/dev/fuse:rwm", "type=device,src=/dev/fuse,dst=/dev/fuse,permissions=rwm"),
    ("/dev/shm:/dev/shm", "type=bind,src=/dev/shm,dst=/dev/shm"),
])  # fmt: skip
@pytest.mark.parametrize("text", [ROLE + '    mounts: ["{}"]\n', TOML_ROLE + 'mounts = ["{}"]\n'])
def test_a_mount_of_compose_is_rewritten(tmp_path: Path, text: str, given: str, read: str) -> None:
    wrong = text.replace("{}", given)
    assert advised(tmp_path, wrong) == f'"{read}"'
    right = wrong.replace(f'"{given}"', advised(tmp_path, wrong))
    assert lines(compile_text(tmp_path, right, name=name_for(text))) == []


@pytest.mark.parametrize(("text", "wrong"), [
    (ROLE + "    env: {DB: {HOST: x}}\n", "DB: {HOST: x}"),
    (TOML_ROLE + 'env = {DB = {HOST = "x"}}\n', 'DB = {HOST = "x"}'),
    (ROLE + "    resource: {cpu: 500m}\n", "500m"),
    (ROLE + "    resource: {cpu: 1500m}\n", "1500m"),
    (ROLE + "    env: {A: $<env.API_TOKEN>}\n", "$<env.API_TOKEN>"),
    (ROLE + "    env: {A: $<secret.HF>}\n", "$<secret.HF>"),
    (TOML_ROLE + 'env = {A = "$<secrets.HF>"}\n', '"$<secrets.HF>"'),
    (ROLE + "    mounts: ./a:/b\n", "./a:/b"),
    (TOML_ROLE + "timeout = 2h\n", "2h"),
])  # fmt: skip
def test_the_spelling_of_another_tool_gets_ours_as_advice(tmp_path: Path, text: str, wrong: str) -> None:
    (found,) = compile_text(tmp_path, text, name=name_for(text)).diagnostics
    advice = re.fullmatch(r"(?:write |such as `)(.*?)`?", found.label)
    right = advice[1] if advice else f'"{wrong}"'
    text = text.replace(wrong, right)
    if "timeout" in text:
        assert found.label == 'text needs quotes: "2h"'
        text = TOML_HEAD + 'timeout = "2h"\nroles.main.entrypoint = "sh"\n'
    assert lines(compile_text(tmp_path, text, name=name_for(text))) == []


@pytest.mark.parametrize("name", ["HOME", "my.dir-2", "2ND"])
@pytest.mark.parametrize("form", ["yaml", "toml"])
def test_the_environment_is_read_through_a_variable(tmp_path: Path, name: str, form: str) -> None:
    text = HEAD + f"roles: {{main: {{entrypoint: sh, args: [$<env.{name}>]}}}}\n"
    if form == "toml":
        text = TOML_HEAD + f'roles.main = {{entrypoint = "sh", args = ["$<env.{name}>"]}}\n'
    (found,) = compile_text(tmp_path, text, name=name_for(text)).errors
    reference = re.fullmatch(r"write `(.*)`, and declare it", found.label)
    assert reference
    declaration = re.match("`([^`]*)`", found.hint)
    assert declaration
    right = text.replace(f"$<env.{name}>", reference[1]) + declaration[1] + "\n"
    assert lines(compile_text(tmp_path, right, name=name_for(text), environ={name: "x"})) == []


def test_a_secret_outside_of_env_gets_the_advice_to_move_it_there(tmp_path: Path) -> None:
    text = HEAD + "roles: {main: {entrypoint: sh, args: [$<secret.HF>]}}\n"
    (found,) = compile_text(tmp_path, text).diagnostics
    entry = re.search("`(HF: .*)`$", found.label)
    assert entry
    right = text.replace("args: [$<secret.HF>]", f"env: {{{entry[1]}}}")
    assert lines(compile_text(tmp_path, right)) == []


@pytest.mark.parametrize(("body", "line"), [
    ("    args:\n      - -c\n      - |\n        echo a\n      echo b\n", "      echo b"),
    ("    args:\n      - -c\n      - >-  # text\n        echo a\n\n    echo b\n", "    echo b"),
    ("    args:\n    - -c\n    - |\n        if x; then\n      echo b\n        fi\n", "      echo b"),
])  # fmt: skip
def test_a_dedented_line_of_a_text_is_valid_when_indented_as_advised(tmp_path, body, line):
    (found,) = compile_text(tmp_path, ROLE + body).diagnostics
    assert found.message == "this line is indented less than the text that it belongs to"
    spaces = re.search(r"by (\d+) spaces", found.label)
    assert spaces
    right = (ROLE + body).replace(line + "\n", " " * int(spaces[1]) + line.strip() + "\n")
    assert lines(compile_text(tmp_path, right)) == []


@pytest.mark.parametrize("text", [
    ROLE + '    run: "TOKEN="s3cr3t" train"\n',
    ROLE + "    run: train --token s3cr3t: x\n",
    ROLE + "    env: {A: b}\n    environment: [API_TOKEN=s3cr3t]\n",
    ROLE + "    environment: [{name: API_TOKEN, value: s3cr3t}]\n",
    ROLE + "    command: [train, --token, s3cr3t]\n",
    HEAD + "vars: {API_TOKEN: s3cr3t}\n" + ROLES,
    TOML_ROLE + "env = {API_TOKEN: s3cr3t}\n",
    TOML_ROLE + "env.API_TOKEN = 's3cr3t\\'x'\n",
    HEAD + "roles:\n  main:\n    API_TOKEN = s3cr3t\n",
])  # fmt: skip
def test_advice_never_repeats_a_secret(tmp_path: Path, text: str) -> None:
    found = compile_text(tmp_path, text, name=name_for(text)).diagnostics
    assert found
    assert [each for each in found if "s3cr3t" in each.label + each.hint] == []


def test_the_escape_that_a_warning_names_is_taken_as_text(tmp_path: Path) -> None:
    text = ROLE + "    args: ['${var.lr}', $<var.lr>]\nvars: {lr: {type: float, default: 0.1}}\n"
    (found,) = compile_text(tmp_path, text).diagnostics
    escape = found.hint.partition("write ")[2].strip("`")
    compiled = compile_text(tmp_path, text.replace("${var.lr}", escape))
    assert lines(compiled) == []
    assert compiled.launches[0].app.roles[0].args[0] == "$${var.lr}"


@pytest.mark.parametrize(("fields", "entrypoint"), [
    ("args: [--api-token t0ps3cret]", "train"), ("args: []", "train --api-token t0ps3cret"),
    ("args: []", "env API_TOKEN=t0ps3cret train"), ("args: --api-token t0ps3cret", "train"),
    ("args: --api-token=t0ps3cret", "train"),
])  # fmt: skip
def test_a_secret_in_a_wrong_value_is_not_repeated(tmp_path: Path, fields: str, entrypoint: str) -> None:
    (found,) = compile_text(tmp_path, ROLE.replace(" sh", f" {entrypoint}") + f"    {fields}\n").diagnostics
    assert found.code in ("command-line", "wrong-type")
    wording = (found.message, found.label, found.hint)
    assert "t0ps3cret" not in "".join(filter(None, wording))


def test_a_value_that_is_set_in_a_script_reads_as_the_label_says(tmp_path: Path) -> None:
    (found,) = compile_text(
        tmp_path, ROLE.replace(" sh", " train") + "    env: {NAME: 'a:$HOME'}\n"
    ).diagnostics
    export = found.label.partition("`run`: ")[2].strip("`")
    text = f"{HEAD}roles:\n  main:\n    run: |\n      {export}\n      train\n"
    assert lines(compile_text(tmp_path, text)) == []
