"""Every message is in our words, with a remedy; pydantic's wording never reaches the user."""

import ast
import re
from pathlib import Path

import pytest

from launcher.jobfile.diagnostic import CODES
from tests.unit.jobfile.words import HEAD, ROLES, compile_text, labels, lines, places


def role(fields: str) -> str:
    return HEAD + f"roles:\n  main:\n    entrypoint: x\n    {fields}\n"


@pytest.mark.parametrize(
    ("text", "expected", "label"),
    [
        (
            role("image: 3.10"),
            "`image` of role `main` must be text, not the number 3.1",
            'write "3.10" for the text',
        ),
        (
            role('num_replicas: "2"'),
            '`num_replicas` of role `main` must be a whole number, not the text "2"',
            "take the quotes away",
        ),
        (
            role("num_replicas: 1.5"),
            "`num_replicas` of role `main` must be a whole number, not the number 1.5",
            "write 1 or 2",
        ),
        (role("num_replicas: true"), "`num_replicas` of role `main` must be a whole number, not `true`", ""),
        (role("num_replicas: 0"), "`num_replicas` of role `main` is 0", "want at least 1"),
        (role("num_replicas: 9999999"), "`num_replicas` of role `main` is 9999999", "want at most 10,000"),
        (role("resource: {cpu: 0}"), "`cpu` in `resource` of role `main` is 0", "want more than 0"),
        (
            role("args: -m train"),
            '`args` of role `main` must be a list, not the text "-m train"',
            'write ["-m", "train"]',
        ),
        (role("args: [[a]]"), "argument 1 of role `main` must be text, not a list", ""),
        (role("env: [A=1]"), "`env` of role `main` must be a mapping, not a list", 'write {A: "1"}'),
        (
            role("env: {A: [1]}"),
            "`A` in `env` of role `main` must be text, not a list",
            "one value, such as a text or a number",
        ),
        (role("env: {A=B: 1}"), "`A=B` cannot name an environment variable", ""),
        (
            role("image:"),
            "`image` of role `main` has no value",
            'write a value, "" for an empty text, or delete the line',
        ),
        (
            role("retry_policy: replicas"),
            '`retry_policy` of role `main` cannot be "replicas"',
            "did you mean `replica`?",
        ),
        (role("retry_policy: 1"), "`retry_policy` of role `main` must be text, not the number 1", ""),
        (role("resource: gpu.smal"), "there is no named resource `gpu.smal`", "did you mean `gpu.small`?"),
        (role("resource: [1]"), "`resource` of role `main` must be a mapping or a name, not a list", ""),
        (role("resource: {memory: 4096}"), "memory needs a unit", 'write "4096MiB" or "4096GiB"'),
        (role("resource: {memory: 4 gigs}"), "`4 gigs` is no amount of memory", 'such as "4GiB"'),
        (
            role("resource: {memory: 1GiB, memMB: 1}"),
            "`memory` and `memMB` say the same thing",
            "keep one of them",
        ),
        (role("min_replicas: 2"), "min_replicas is 2, more than num_replicas, which is 1", ""),
        (
            role("mounts: [{type: bnd}]"),
            '`type` of mount 1 of role `main` cannot be "bnd"',
            "did you mean `bind`?",
        ),
        (
            role("mounts: [{src: a}]"),
            "mount 1 of role `main` has no `type`",
            "add `type`: bind, volume, device",
        ),
        (
            role("mounts: [{type: bind, src: a}]"),
            "mount 1 of role `main` has no `dst`",
            "add `dst`: the path it gets",
        ),
        (
            role("mounts: [3]"),
            "mount 1 of role `main` must be a mapping, not the number 3",
            "write {type: bind, src: ./data, dst: /data}",
        ),
        (role("mounts: ['type=bind,srk=a']"), "unknown mount option `srk`", "did you mean `src`?"),
        (
            role("mounts: [{type: device, src: a, permissions: x}]"),
            '"x" is no set of permissions',
            "such as `rw`",
        ),
        (
            role("mounts: [{type: device, src: a, read_only: true}]"),
            "`read_only` is not a field of mount 1 of role `main` of type device",
            "delete it",
        ),
        (
            role("port_map: {http: 70000}"),
            "`http` in `port_map` of role `main` is 70000",
            "want at most 65,535",
        ),
        (role("command: x"), "`command` is not a field of role `main`", "did you mean `entrypoint`?"),
        (role("replicas: 2"), "`replicas` is not a field of role `main`", "did you mean `num_replicas`?"),
        (role("Image: x"), "`Image` is not a field of role `main`", "did you mean `image`?"),
        (HEAD + "roles: {}\n", "`roles` is empty", "a job has at least one role"),
        (HEAD + "roles: [a]\n", "`roles` must be a mapping, not a list", ""),
        (
            HEAD + "roles: {a: {}}\n",
            "role `a` has no `entrypoint`",
            "add `entrypoint`: the program to run, or `run`: a script",
        ),
        (HEAD + "roles: {a: {entrypoint: ''}}\n", "`entrypoint` of role `a` is empty", "write a value"),
        (HEAD + "roles: {My Role: {entrypoint: x}}\n", "`My Role` cannot name a role", "such as `my-role`"),
        (HEAD, "the job has no `roles`", "add `roles`: what runs, by name"),
        (
            role("max_retries: 1") + "enabled: yes\n",
            '`enabled` must be true or false, not the text "yes"',
            "write true",
        ),
        (
            role("max_retries: 1") + "timeout: 2 hours\n",
            "`2 hours` is no duration",
            'write "2h"',
        ),
        (
            role("max_retries: 1") + "timeout: 0\n",
            "a timeout is at least 1 second and at most 10 years",
            'such as "2h" or "90s"',
        ),
        (
            role("max_retries: 1") + "timeout: true\n",
            "a duration is text or a whole number of seconds",
            'such as "2h" or "90s"',
        ),
        (
            role("max_retries: 1") + "lifecycle: {on_failed: retry}\n",
            '`on_failed` in `lifecycle` cannot be "retry"',
            "did you mean `rerun`?",
        ),
        (
            role("max_retries: 1") + "vars: {v: 3}\n",
            "variable `v` must be a mapping, not the number 3",
            "write {type: int, default: 3}",
        ),
        *(
            (
                role("max_retries: 1") + f"vars: {{{name}: [1]}}\n",
                f"variable `{name}` must be a mapping, not a list",
                "write {type: str}",
            )
            for name in ("resource", "depends_on", "needs", "workspace")
        ),
        (
            role("max_retries: 1") + "vars: {v: {type: string}}\n",
            '`type` of variable `v` cannot be "string"',
            "did you mean `str`?",
        ),
        (role("max_retries: 1") + "vars: {1v: {type: str, default: a}}\n", "`1v` cannot name a variable", ""),
        (
            role("max_retries: 1") + "vars: {v: {type: bool, default: true, min: 1}}\n",
            "`min` is not a field of variable `v` of type bool",
            "delete it",
        ),
        (role("max_retries: 1") + "metadata: {a: [1]}\n", "`a` in `metadata` must be text, not a list", ""),
    ],
)
def test_each_mistake_gets_one_sentence_in_our_words(
    tmp_path: Path, text: str, expected: str, label: str
) -> None:
    compiled = compile_text(tmp_path, text)
    errors = [(found.message, found.label) for found in compiled.errors]
    assert errors == [(expected, label)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            HEAD + "roles:\n  main:\n    entrypoint: x\n    resource: {}\n    cpu: 1\n",
            "`cpu` is a field of `resource` of role `main`",
        ),
        (
            HEAD + "roles:\n  main:\n    entrypoint: x\n    resource:\n      image: y\n",
            "`image` is a field of role `main`",
        ),
        (HEAD + "roles:\n  main:\n    entrypoint: x\n    timeout: 3\n", "`timeout` is a field of the job"),
        (HEAD + "image: y\nroles:\n  main:\n    entrypoint: x\n", "`image` is a field of a role"),
        (HEAD + "roles:\n  main: {entrypoint: x}\n  image: y\n", "`image` is a field of a role"),
        (
            HEAD + "roles:\n  main: {entrypoint: x}\nlifecycle: {}\non_failed: hold\n",
            "`on_failed` is a field of `lifecycle`",
        ),
    ],
)
def test_a_key_of_another_level_says_that_the_indentation_is_off(tmp_path, text, expected):
    assert labels(compile_text(tmp_path, text)) == [f"the indentation is off: {expected}"]


def test_an_empty_role_with_its_fields_beside_it_gets_the_advice_to_indent_them(tmp_path: Path) -> None:
    compiled = compile_text(tmp_path, HEAD + "roles:\n  main:\n  image: x\n  entrypoint: y\n")
    assert lines(compiled) == [
        "4:3 wrong-type role `main` has no value",
        '5:10 wrong-type role `image` must be a mapping, not the text "x"',
        '6:15 wrong-type role `entrypoint` must be a mapping, not the text "y"',
    ]
    assert labels(compiled)[0] == "indent its fields below it, or delete the line"


def test_in_toml_a_key_of_another_table_is_refused_with_where_to_put_it(tmp_path: Path) -> None:
    text = 'version = 1\nname = "a"\n[roles.main]\nentrypoint = "x"\ntimeout = 3\nresource = {}\ncpu = 1\n'
    compiled = compile_text(tmp_path, text, name="j.launcher.toml")
    assert [found.hint for found in compiled.errors] == [
        "move it above the first table",
        "move it below [roles.main.resource]",
    ]


def test_a_newer_version_is_reported_alone(tmp_path: Path) -> None:
    compiled = compile_text(tmp_path, "version: 2\nnome: x\nname: y\nname: z\nroles: 3\n")
    assert lines(compiled) == [
        "1:10 newer-version the file is written in version 2, and this launcher knows 1"
    ]


@pytest.mark.parametrize("version", ["true", '"1"', "1.0", "0", "-1", "[1]"])
def test_a_wrong_version_is_reported_beside_the_other_mistakes(tmp_path: Path, version: str) -> None:
    compiled = compile_text(tmp_path, f"version: {version}\nnome: x\n")
    assert [place.split()[0] for place in places(compiled)] == ["1:1", "1:10", "2:1"]


def test_rules_over_several_fields_are_checked_beside_other_mistakes(tmp_path: Path) -> None:
    text = HEAD + (
        "scheduler: local_cmd\ntimeout: soon\nroles:\n"
        "  a: {entrypoint: x, min_replicas: 2}\n  b: {entrypoint: x, num_replicas: two}\n"
        "  c: {entrypoint: x, resource: gpu.smal}\n"
    )
    assert places(compile_text(tmp_path, text)) == [
        "3:12 unknown-variant",
        "4:10 invalid-value",
        "6:36 constraint",
        "7:36 wrong-type",
        "8:32 unknown-variant",
    ]


def test_warnings_do_not_stop_anything(tmp_path: Path) -> None:
    compiled = compile_text(tmp_path, role("image: x:latest\n    env: {HF_TOKEN: abc, MAX_TOKENS: '3'}"))
    assert places(compiled) == ["6:12 unpinned-image", "7:11 secret-literal"]
    assert {found.severity for found in compiled.diagnostics} == {"warning"}
    assert len(compiled.launches) == 1


@pytest.mark.slow
def test_every_code_in_use_is_documented() -> None:
    import launcher.jobfile

    folder = Path(launcher.jobfile.__file__).parent
    rooms = ("text", "model", "messages", "compile")
    files = [path for room in rooms for path in (folder / room).glob("*.py")]
    trees = [ast.parse(path.read_text()) for path in files]
    texts = [node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    used = {text for text in texts if isinstance(text, str) and re.fullmatch(r"[a-z]+(-[a-z]+)+", text)}
    used -= {"utf-8", "utf-8-sig", "duplicate-destination", "duplicate-role"}
    used -= {"build-system", "dev-environment", "on-failure", "runs-on"}  # keys of other tools
    used -= {"unusable-name", "unusable-path", "unusable-text"}  # names of `specs.check`, translated
    assert used == CODES.keys() - {"constraint", "encoding", "unreadable"}


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        (HEAD + "roles: {main: {entrypoint: [sh, -c]}}\n", "`entrypoint: sh`, `args: ['-c']`"),
        (HEAD + "component: utils.sh\nargs: [date]\n", "`args: {args: [date]}`"),
        (HEAD + "component: utils.echo\nargs: hello\n", "`args: {msg: …}`"),
        (HEAD + "component: ./none.py:train\nargs: [1]\n", "`args: {NAME: value}`"),
    ],
)
def test_the_syntax_of_another_tool_gets_ours_as_a_hint(tmp_path, text, remedy):
    assert remedy in compile_text(tmp_path, text).errors[-1].hint


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        *(("90 secs", "90s"), ("1 hour, 30 min", "1h30m"), ("1 day and 2 hours", "1d2h")),
        *(("30m 1h", "1h30m"), ("soon", "")),
    ],
)
def test_a_duration_in_words_is_shown_in_units(tmp_path: Path, written: str, meant: str) -> None:
    (error,) = compile_text(tmp_path, HEAD + ROLES + f"timeout: {written}\n").errors
    assert (error.label == f'write "{meant}"') == bool(meant)
