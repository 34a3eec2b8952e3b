"""A valid value that does not mean what it seems to gets a warning; a value that only looks odd gets none."""

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
        ("--id=$app_id", "$<app_id>"),
        ("{{ app_id }}", "$<app_id>"),
        ("${{replica_id}}", "$<replica_id>"),
        ("/data/<app_id>/x", "$<app_id>"),
    ],
)
def test_text_that_looks_like_a_reference_is_shown_the_reference_to_write(
    tmp_path: Path, text: str, meant: str
) -> None:
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
        *("${app_id}", "$<app_id>$<replica_id>", "<role>", "${role}"),
        *("{{ role }}", "{{ output_dir }}", "$role", "$app_ids", "$$app_id", "<<app_id>", "$app_id.x"),
    ],
)
def test_the_syntax_of_shells_and_templates_is_no_lookalike_of_a_reference(tmp_path: Path, text: str) -> None:
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
        ("tcp://$HOST:8786", "$HOST"),
        ("--url=tcp://$HOST:$PORT", "$HOST"),
        ("run-$RUN_ID.log", "$RUN_ID"),
    ],
)
def test_text_that_only_a_shell_expands_is_noted_where_no_shell_runs(
    tmp_path: Path, text: str, part: str
) -> None:
    (found,) = compile_text(tmp_path, args(text)).diagnostics
    assert (found.code, found.severity) == ("unexpanded-argument", "warning")
    assert found.message.endswith(f"gets `{part}` as it is")


@pytest.mark.parametrize(
    "text",
    [
        "a$b",
        "$1",
        "$$",
        "^a$",
        "~user",
        "a | b",
        "s/a/$B/",
        "price: $5",
        "${lower}",
        "${HOME:-x}",
        "s/a/$ABC/",
        "{x}$ABC",
    ],
)
def test_text_that_merely_has_a_sign_of_the_shell_is_left_alone(tmp_path: Path, text: str) -> None:
    assert lines(compile_text(tmp_path, args(text))) == []


def test_the_escape_that_the_warning_names_is_taken_as_text(tmp_path: Path) -> None:
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
def test_characters_that_look_like_syntax_are_noted(tmp_path: Path, fields: str, place: str) -> None:
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
def test_typographic_quotes_that_are_meant_are_left_alone(tmp_path: Path, fields: str) -> None:
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
def test_an_option_with_its_value_in_one_argument_is_noted(tmp_path: Path, given: str, words: str) -> None:
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
def test_a_secret_in_a_wrong_value_is_not_repeated(tmp_path: Path, fields: str, entrypoint: str) -> None:
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
def test_arguments_with_blanks_that_are_meant_are_left_alone(tmp_path: Path, given: str) -> None:
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
def test_a_variable_name_that_no_shell_can_use_is_noted(
    tmp_path: Path, name: str, entrypoint: str, near: str
) -> None:
    text = role(f"env: {{{name}: x}}", entrypoint)
    compiled = compile_text(tmp_path, text)
    assert places(compiled) == ["6:11 env-name"]
    assert labels(compiled) == [f"such as `{near}`"]
    assert lines(compile_text(tmp_path, text.replace(f"{{{name}:", f"{{{near}:"))) == []


@pytest.mark.parametrize(
    "name", ["discovery.type", "ConnectionStrings:Main", "INPUT_MY-NAME", "ÜBUNG", "_", "a1"]
)
def test_a_variable_name_that_programs_look_for_is_left_alone(tmp_path: Path, name: str) -> None:
    assert lines(compile_text(tmp_path, role(f"env: {{{name}: x}}"))) == []


@pytest.mark.parametrize("name", ["LAUNCHER_JOB_ID", "LAUNCHER_RANK0_HOST", "LAUNCHER_SCRATCH"])
def test_a_variable_that_every_replica_gets_from_its_scheduler_is_noted(tmp_path: Path, name: str) -> None:
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
def test_toml_that_other_tools_refuse_is_noted(tmp_path: Path, body: str, place: str, label: str) -> None:
    compiled = compile_text(tmp_path, TOML + body, name="job.launcher.toml")
    assert places(compiled) == [f"{place} newer-toml"]
    assert labels(compiled)[0].startswith(label)
    assert len(compiled.launches) == 1


def test_toml_1_0_that_looks_like_newer_toml_is_left_alone(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("name", "whose"),
    [("timeout", "the job"), ("schedule", ""), ("image", "role `main`"), ("num_replicas", "role `main`")],
)
def test_a_field_below_env_is_noted(tmp_path: Path, name: str, whose: str) -> None:
    compiled = compile_text(tmp_path, role(f"env: {{MODE: fast, {name}: x}}"))
    found = [(each.code, each.label) for each in compiled.diagnostics]
    wanted = [("misplaced-field", f"move it out of `env`, to the fields of {whose}")] if whose else []
    assert found == wanted
    assert len(compiled.launches) == 1


def test_a_field_of_toml_that_follows_a_table_of_variables_is_noted(tmp_path: Path) -> None:
    compiled = compile_text(
        tmp_path,
        TOML + '[roles.main]\nentrypoint = "env"\n[roles.main.env]\nA = "1"\ntimeout = "2h"\n',
        name="job.launcher.toml",
    )
    assert places(compiled) == ["7:1 misplaced-field"]


def test_a_field_that_is_set_in_its_place_is_also_a_variable(tmp_path: Path) -> None:
    text = role("env: {name: x, version: '2', timeout: 2h, image: y}\n    image: x:1", more="timeout: 1h\n")
    assert [*compile_text(tmp_path, text).diagnostics] == []


@pytest.mark.parametrize(
    ("fields", "label"),
    [
        ("env: {PATH: '/opt/bin:$PATH'}", 'set it in `run`: `export PATH="/opt/bin:$PATH"`'),
        ("env: {DATA: '${HOME}/data'}", 'set it in `run`: `export DATA="${HOME}/data"`'),
        ("env: {CORES: '$(nproc)'}", 'set it in `run`: `export CORES="$(nproc)"`'),
        ("env: {API_TOKEN: 'hunter2/$HOME'}", "set it in `run`, with `export`"),
        ("env: {TOKEN: '${{ secrets.HF }}'}", 'write {secret: "env:HF"}'),
    ],
)
def test_a_value_that_only_a_shell_expands_is_noted(tmp_path: Path, fields: str, label: str) -> None:
    (found,) = compile_text(tmp_path, role(fields)).diagnostics
    assert (found.code, found.label, found.severity) == ("unexpanded-variable", label, "warning")


def test_a_value_that_is_set_in_a_script_reads_as_the_label_says(tmp_path: Path) -> None:
    fields = role("env: {NAME: 'a:$HOME'}")
    (found,) = compile_text(tmp_path, fields).diagnostics
    export = found.label.partition("`run`: ")[2].strip("`")
    text = f"{HEAD}roles:\n  main:\n    run: |\n      {export}\n      train\n"
    assert lines(compile_text(tmp_path, text)) == []


@pytest.mark.parametrize("value", ["^a$", "costs $5", "$X", "a$b", "echo $HOME", "s3://b/${x}", "%$HOME%x y"])
def test_a_value_for_another_reader_is_left_alone(tmp_path: Path, value: str) -> None:
    assert lines(compile_text(tmp_path, role(f"env: {{A: '{value}'}}"))) == []


@pytest.mark.parametrize(
    ("args", "label"),
    [
        ("['echo hi']", "write it as a script, in `run` in place of `entrypoint` and `args`"),
        ("[-eu, 'echo hi']", "write it as a script, in `run` in place of `entrypoint` and `args`"),
        ("[-c, ls, /tmp]", "write the whole command as a script, in `run`: `run: ls /tmp`"),
        ("[-euo, pipefail, -c, ls, /tmp]", "write the whole command as a script, in `run`: `run: ls /tmp`"),
        ("[-c, curl, --token, abc]", "write the whole command as a script, in `run`"),
        ("[-lc, ls, --, /tmp]", "write the whole command as a script, in `run`: `run: ls -- /tmp`"),
    ],
)
def test_an_argument_that_a_shell_reads_otherwise_is_noted(tmp_path: Path, args: str, label: str) -> None:
    (found,) = compile_text(tmp_path, role(f"args: {args}", entrypoint="bash")).diagnostics
    assert (found.code, found.label) == ("shell-argument", label)


@pytest.mark.parametrize(
    "args",
    [
        *("[]", "[train.sh]", "[train.sh, a b]", "['my job.sh']", "[-c, ls]", "[-c, 'ls \"$1\"', sh, /tmp]"),
        *("[-c, 'ls /tmp', sh]", "[-s, 'a b']", "[-c, $<var.lr>, x]", "[-o, 'a b']", "['echo $HOME']"),
    ],
)
def test_an_argument_that_a_shell_reads_as_it_looks_is_left_alone(tmp_path: Path, args: str) -> None:
    (tmp_path / "my job.sh").write_text("")
    text = role(f"args: {args}", entrypoint="bash", more="vars: {lr: {type: float, default: 0.1}}\n")
    assert [each for each in compile_text(tmp_path, text).diagnostics if each.code != "unused-variable"] == []


def script(text: str) -> str:
    return f"{HEAD}roles:\n  main:\n    run: {text}\n"


@pytest.mark.parametrize(
    "text",
    [
        *(">\n      a\n      b", ">-\n      a\n      b", "a\n      b", ">\n      a\n\n      b\n      c"),
        ">\n      a \\\n      --b",
    ],
)
def test_a_script_whose_lines_yaml_joins_is_noted(tmp_path: Path, text: str) -> None:
    (found,) = compile_text(tmp_path, script(text)).diagnostics
    assert (found.code, found.severity) == ("joined-lines", "warning")


@pytest.mark.parametrize(
    "text",
    [
        *(
            "a",
            "|\n      a\n      b",
            ">\n      a",
            ">\n      a\n\n      b",
            ">\n      a\n      --b\n      -c",
        ),
        *("a\n      --b", "a &&\n      b", ">\n      a\n      | b", ">\n      a;\n      b", "'a\n      b'"),
        *(">\n      for x in a; do\n      b;\n      done", ">\n      a\n        b", "a |\n      b"),
    ],
)
def test_a_script_that_yaml_keeps_or_joins_as_it_was_meant_is_left_alone(tmp_path: Path, text: str) -> None:
    assert lines(compile_text(tmp_path, script(text))) == []


def test_a_text_of_toml_keeps_its_lines(tmp_path: Path) -> None:
    text = TOML + '[roles.main]\nrun = """\na\nb\n"""\n'
    assert lines(compile_text(tmp_path, text, name="job.launcher.toml")) == []


@pytest.mark.parametrize(
    ("args", "axes"),
    [
        ("[]", ["lr", "seed"]),
        ("[$<matrix.lr>]", ["seed"]),
        ("[$<needs.a-$<matrix.lr>-$<matrix.seed>.output_dir>]", []),
        ("[$<job.name>]", []),
    ],
)
def test_an_axis_that_nothing_refers_to_is_a_note_of_the_plan(
    tmp_path: Path, args: str, axes: list[str]
) -> None:
    top = "matrix: {lr: [0.1, 0.2], seed: [1, 2, 3], model: [one]}\n"
    needs = "needs: ['a-$<matrix.lr>-$<matrix.seed>']\n" if "needs" in args else ""
    compiled = compile_text(tmp_path, role(f"args: {args}", more=top + needs))
    assert [each.code for each in compiled.diagnostics if each.code != "unknown-need"] == []
    first, *others = compiled.launches
    assert [note.partition(":")[0] for note in first.notes] == [
        f"nothing refers to `$<matrix.{axis}>`" for axis in axes
    ]
    assert not any(each.notes for each in others)
