"""What is valid and does not mean what it looks like is a warning, and what only looks odd is none."""

from pathlib import Path

import pytest

from tests.unit.jobfile.words import HEAD, compile_text, labels, lines, places

TOML = 'version = 1\nname = "job"\n'


def role(fields: str, entrypoint: str = "train", more: str = "") -> str:
    return HEAD + more + f"roles:\n  main:\n    entrypoint: {entrypoint}\n    {fields}\n"


def args(text: str) -> str:
    return role(f"args: ['{text}', $<var.lr>, $<matrix.seed>]", more=DECLARED)


DECLARED = "vars: {lr: {type: float, default: 0.1}}\nmatrix: {seed: [1]}\n"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("$<app_id", "$<app_id>"),
        ("echo $<app_id; ls", "$<app_id>"),
        ("$< app_id >", "$<app_id>"),
        ("$<app_id >", "$<app_id>"),
        ("$< var.lr>", "$<var.lr>"),
        ("$<var.lr", "$<var.lr>"),
        ("$< job.name >", "$<job.name>"),
        ("$<git.sha", "$<git.sha>"),
        ("${var.lr}", "$<var.lr>"),
        ("--lr=${ var.lr }", "$<var.lr>"),
        ("${{ matrix.seed }}", "$<matrix.seed>"),
        ("${job.name}", "$<job.name>"),
    ],
)
def test_what_looks_like_a_reference_is_shown_as_one(tmp_path: Path, text: str, meant: str) -> None:
    compiled = compile_text(tmp_path, args(text))
    assert [(found.code, found.label) for found in compiled.diagnostics] == [
        ("lookalike-reference", f"write `{meant}`")
    ]
    assert len(compiled.launches) == 1


@pytest.mark.parametrize(
    "text",
    [
        *("$<", "cat $<file", "$< input", "${HOME}", "${HOME:-x}", "${var}", "${var.other}", "$(date)"),
        *("$${var.lr}", "${lr}", "${{ x }}", "${{ github.sha }}", "${matrix.other}", "$$<app_id>", "$1"),
        *("${app_id}", "$<app_id>$<replica_id>", "<app_id>", "${role}"),
    ],
)
def test_what_shells_and_templates_write_is_none(tmp_path: Path, text: str) -> None:
    found = compile_text(tmp_path, args(text)).diagnostics
    assert [each for each in found if each.code != "unexpanded-argument"] == []


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("$HOME", "$HOME"),
        ("--dir=${DATA_DIR}/in", "${DATA_DIR}"),
        ("$(date +%s)", "$(date +%s)"),
        ("~/data", "~"),
        ("|", "|"),
    ],
)
def test_what_only_a_shell_expands_is_shown_where_there_is_none(tmp_path: Path, text: str, part: str) -> None:
    (found,) = compile_text(tmp_path, args(text)).diagnostics
    assert (found.code, found.severity) == ("unexpanded-argument", "warning")
    assert found.message.endswith(f"gets `{part}` as it is")


@pytest.mark.parametrize(
    "text", ["a$b", "$1", "$$", "^a$", "~user", "a | b", "s/a/$B/", "price: $5", "${lower}", "${HOME:-x}"]
)
def test_text_that_merely_has_such_a_sign_is_left_alone(tmp_path: Path, text: str) -> None:
    assert lines(compile_text(tmp_path, args(text))) == []


def test_the_escape_that_it_names_is_taken_as_text(tmp_path: Path) -> None:
    (found,) = compile_text(tmp_path, args("${var.lr}")).diagnostics
    escape = found.hint.partition("write ")[2].strip("`")
    compiled = compile_text(tmp_path, args(escape))
    assert lines(compiled) == []
    assert compiled.launches[0].app.roles[0].args[0] == "$${var.lr}"


def test_a_variable_that_is_only_misspelt_is_not_called_unused(tmp_path: Path) -> None:
    text = role("args: ['${var.lr}']", more="vars: {lr: {type: float, default: 0.1}}\n")
    assert [place.split()[1] for place in places(compile_text(tmp_path, text))] == ["lookalike-reference"]


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ("args: [“hello”]", "6:12"),
        ("args: [a, „hello“]", "6:15"),
        ("args: [‘hello’]", "6:12"),
        ("image: “python:3.12”", "6:12"),
        ("env: {A: “b”}", "6:14"),
        ("args: [“one, more]", "6:12"),
        ("args: [hello\u00a0]", "6:12"),
        ("args: [\u200bhello]", "6:12"),
    ],
)
def test_characters_that_look_like_syntax(tmp_path: Path, fields: str, place: str) -> None:
    compiled = compile_text(tmp_path, role(fields))
    assert places(compiled) == [f"{place} lookalike-character"]
    assert len(compiled.launches) == 1


@pytest.mark.parametrize(
    "fields",
    [
        'args: ["“hello”", "hello\u00a0"]',
        "args: [it’s, ‘tis, dogs’, “a” or “b”, 5”x7”, a “word” here]",
        "args:\n      - |\n        “hello”\n      - >-\n        “hello”",
        "metadata: {title: “Runs”}",
    ],
)
def test_quotes_that_are_meant(tmp_path: Path, fields: str) -> None:
    assert lines(compile_text(tmp_path, role(fields))) == []


def test_a_description_may_have_any_quotes(tmp_path: Path) -> None:
    text = role("args: []", more="description: “Train”\nx-note: “Train”\n")
    assert lines(compile_text(tmp_path, text)) == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("[--lr 0.1]", '"--lr", "0.1"'),
        ("[train, -n 3]", '"-n", "3"'),
        ("[--lr $<app_id>]", '"--lr", "$<app_id>"'),
        ("[\"-c 'echo hi'\"]", '"-c", "echo hi"'),
        ("[--lr 0.1 --fast --epochs 3]", '"--lr", "0.1", "--fast", "--epochs", "3"'),
    ],
)
def test_an_option_with_its_value_in_one_argument(tmp_path: Path, given: str, words: str) -> None:
    text = role(f"args: {given}")
    (found,) = compile_text(tmp_path, text).diagnostics
    assert (found.code, found.label) == ("command-line", f"make each word an item: {words}")
    one = given.strip("[]").rpartition(", ")[2]
    assert lines(compile_text(tmp_path, text.replace(one, words))) == []


@pytest.mark.parametrize(
    ("fields", "entrypoint"),
    [
        ("args: [--api-token t0ps3cret]", "train"),
        ("args: []", "train --api-token t0ps3cret"),
        ("args: []", "env API_TOKEN=t0ps3cret train"),
        ("args: --api-token t0ps3cret", "train"),
        ("args: --api-token=t0ps3cret", "train"),
    ],
)
def test_a_secret_in_what_is_wrong_is_not_repeated(tmp_path: Path, fields: str, entrypoint: str) -> None:
    (found,) = compile_text(tmp_path, role(fields, entrypoint)).diagnostics
    assert found.code in ("command-line", "wrong-type")
    wording = (found.message, found.label, found.hint)
    assert "t0ps3cret" not in "".join(filter(None, wording))


@pytest.mark.parametrize(
    "given",
    [
        "[--extra-args, --lr 0.1]",
        "[-c, -x foo]",
        "[--lr=0.1 0.2]",
        "[-v is how you ask for more]",
        '["--", "- a"]',
        "[a -b c]",
        "[-Dname=a b]",
    ],
)
def test_arguments_with_blanks_that_are_meant(tmp_path: Path, given: str) -> None:
    assert lines(compile_text(tmp_path, role(f"args: {given}"))) == []


@pytest.mark.parametrize(
    ("name", "entrypoint", "near"),
    [
        ("1X", "train", "_1X"),
        ("A B", "train", "A_B"),
        ("A$", "train", "A_"),
        ("LOG-LEVEL", "sh", "LOG_LEVEL"),
        ("a.b", "/bin/bash", "a_b"),
        ("É", "sh", "_"),
    ],
)
def test_a_name_that_no_shell_can_use(tmp_path: Path, name: str, entrypoint: str, near: str) -> None:
    text = role(f"env: {{{name}: x}}", entrypoint)
    compiled = compile_text(tmp_path, text)
    assert places(compiled) == ["6:11 env-name"]
    assert labels(compiled) == [f"such as `{near}`"]
    assert lines(compile_text(tmp_path, text.replace(f"{{{name}:", f"{{{near}:"))) == []


@pytest.mark.parametrize(
    "name", ["discovery.type", "ConnectionStrings:Main", "INPUT_MY-NAME", "ÜBUNG", "_", "a1"]
)
def test_a_name_that_programs_look_for(tmp_path: Path, name: str) -> None:
    assert lines(compile_text(tmp_path, role(f"env: {{{name}: x}}"))) == []


@pytest.mark.parametrize("name", ["LAUNCHER_JOB_ID", "LAUNCHER_RANK0_HOST", "LAUNCHER_SCRATCH"])
def test_a_variable_that_every_replica_gets_from_its_scheduler(tmp_path: Path, name: str) -> None:
    compiled = compile_text(tmp_path, role(f"env: {{{name}: x}}"))
    assert places(compiled) == ["6:11 overridden-variable"]
    assert len(compiled.launches) == 1


def test_other_variables_of_launcher_may_be_set(tmp_path: Path) -> None:
    assert lines(compile_text(tmp_path, role("env: {LAUNCHER_HOME: /x, LAUNCHER_CONFIG: a}"))) == []


HIDING = (
    "roles: {a: {entrypoint: x, num_replicas: 2, image: i, env: {A: b}, mounts: []},"
    " b: {entrypoint: y, num_replicas: 3, image: j, env: {A: c}, mounts: []}}\n"
)


@pytest.mark.parametrize(
    ("common", "found"),
    [
        ("num_replicas: two", "3:33 wrong-type `num_replicas` of `defaults.role` must be a whole number"),
        ("env: {A: [1]}", "3:28 wrong-type `A` of `env` of `defaults.role` must be text"),
        ("mounts: [{type: bnd}]", "3:35 unknown-variant `type` of mount 1 of `defaults.role`"),
        ("image: $<var.nobody>", "3:26 unknown-reference there is no variable `nobody`"),
    ],
)
def test_a_default_that_every_role_hides_is_checked_all_the_same(tmp_path, common, found):
    compiled = compile_text(tmp_path, HEAD + f"defaults: {{role: {{{common}}}}}\n" + HIDING)
    assert [line[: len(found)] for line in lines(compiled)] == [found]
    assert {each.severity for each in compiled.diagnostics} == {"error"}


def test_a_hidden_default_of_a_target_is_checked_too(tmp_path: Path) -> None:
    targets = "targets: {dev: {defaults: {role: {num_replicas: two}}}}\n"
    text = HEAD + "defaults: {role: {num_replicas: 1, max_retries: $<var.n>}}\n" + HIDING + targets
    text += "vars: {n: {type: int, default: 1}}\n"
    assert places(compile_text(tmp_path, text)) == ["5:49 wrong-type"]


@pytest.mark.parametrize(
    ("body", "place", "label"),
    [
        ('roles.main = {\n  entrypoint = "x"\n}\n', "3:14", "write the table on one line"),
        ('roles.main = {entrypoint = "x", }\n', "3:31", "delete the comma"),
        ('roles.main.entrypoint = "x\\e"\n', "3:27", "write `\\u001b`"),
        ('roles.main.entrypoint = "\\x41"\n', "3:26", "write `\\u0041`"),
        ('roles.main.entrypoint = "x"\nmetadata.at = 07:30\n', "4:15", "write the seconds"),
    ],
)
def test_toml_that_other_tools_refuse(tmp_path: Path, body: str, place: str, label: str) -> None:
    compiled = compile_text(tmp_path, TOML + body, name="job.launcher.toml")
    assert places(compiled) == [f"{place} newer-toml"]
    assert labels(compiled)[0].startswith(label)
    assert len(compiled.launches) == 1


def test_toml_1_0_that_looks_like_it(tmp_path: Path) -> None:
    body = (
        'roles.main = {entrypoint = "{,}", args = [\n  "{ ,}",\n  \'\\e\', "\\\\x41",\n], env = {A = "b"}}\n'
        'description = """\n{ a,\n}"""\nmetadata = {at = 07:30:00, "12:30" = "x"}\n'
    )
    assert lines(compile_text(tmp_path, TOML + body, name="job.launcher.toml")) == []


@pytest.mark.parametrize(
    "entrypoint", [r"C:\Program Files\Python312\python.exe", r"\\host\my share\train.exe"]
)
def test_a_path_of_windows_may_have_blanks(tmp_path: Path, entrypoint: str) -> None:
    assert lines(compile_text(tmp_path, role("args: []", f"'{entrypoint}'"))) == []


@pytest.mark.parametrize(
    ("fields", "advice"),
    [
        ("shell: bash", "delete it"),
        ("shell: sh", "delete it"),
        ("retry_delay: 2s", "add `max_retries: 3`"),
        ("retry_delay: 2s\n    retry_policy: replica", "add `max_retries: 3`"),
    ],
)
def test_a_field_that_has_no_effect_alone_is_shown(tmp_path: Path, fields: str, advice: str) -> None:
    (found,) = compile_text(tmp_path, role(fields)).diagnostics
    assert (found.code, found.severity, found.label) == ("unused-field", "warning", advice)
    assert found.source_line.strip() == fields.splitlines()[0]
    mended = role("args: []" if advice == "delete it" else f"{fields}\n    max_retries: 3")
    assert lines(compile_text(tmp_path, mended)) == []


@pytest.mark.parametrize(
    "text",
    [
        role("max_retries: 0\n    retry_delay: 2s"),
        role("max_retries: $<var.lr>\n    retry_delay: 2s", more="vars: {lr: {type: int, default: 0}}\n"),
        role("args: [a]", more="defaults: {role: {shell: bash, retry_delay: 2s}}\n"),
        role("retry_delay: 2s", more="defaults: {role: {max_retries: 3}}\n"),
        role("depends_on: []"),
    ],
)
def test_a_field_that_defaults_or_variables_may_need_is_left_alone(tmp_path: Path, text: str) -> None:
    assert lines(compile_text(tmp_path, text)) == []
