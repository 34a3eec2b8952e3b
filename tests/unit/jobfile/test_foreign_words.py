"""Each word of another tool gets an answer: a field that is valid as shown, or a sentence."""

import json
from pathlib import Path
from typing import Any

import pytest

from launcher.cli.main import main
from launcher.jobfile.diagnostic import CODES
from launcher.jobfile.messages.collector import entry
from launcher.jobfile.messages.foreign import Word, word_for, words
from launcher.jobfile.model.fields import fields_at
from launcher.plan.step import REASONS
from launcher.schedulers import get_scheduler_factories
from tests.unit.jobfile.words import HEAD, ROLES, compile_text

PATHS: dict[str, tuple[str | int, ...]] = {
    "job": (), "role": ("roles", "main"), "resource": ("roles", "main", "resource"),
    "mount": ("roles", "main", "mounts", 0), "ready": ("roles", "main", "ready"), "variable": ("vars", "lr"),
    "need": ("needs", "prepare"),
}  # fmt: skip
ROWS = [
    pytest.param(kind, name, word, id=f"{kind}-{name}-{number}")
    for kind, known in words().items()
    for name, meanings in known.items()
    for number, word in enumerate(meanings)
]
OTHER = "  db: {entrypoint: env, service: true, ready: {port: 80}}\n"
SOURCES = {"src", "source", "hostpath"}
DESTINATIONS = {"dst", "destination", "target", "mountpath"}


def text(kind: str, fields: dict[str, Any]) -> str:
    """Return a job file with these fields in its mapping of a kind, and with what that mapping must have."""
    given = {*fields}
    if kind == "job":
        head = "version: 1\n" if "name" in given else HEAD
        uses = ", args: [$<var.lr>]" if "vars" in given else ""
        roles = "" if "roles" in given else f"roles: {{main: {{entrypoint: env{uses}}}}}\n"
        return head + block("", fields) + roles
    if kind == "role":
        program = "" if {"entrypoint", "run"} & given else "    entrypoint: env\n"
        other = "" if {"service", "daemon", "sidecar"} & given else OTHER
        other = other or "  db: {entrypoint: env}\n"
        return f"{HEAD}roles:\n{other}  main:\n{program}{block('    ', fields)}"
    if kind == "need":
        return f"{HEAD}needs:\n  prepare:\n{block('    ', fields)}roles: {{main: {{entrypoint: env}}}}\n"
    if kind == "variable":
        args = "roles: {main: {entrypoint: env, args: [$<var.lr>]}}\n"
        own = {"type": "str" if "env" in given else "float", **fields}
        return f"{HEAD}vars:\n  lr:\n{block('    ', own)}{args}"
    role = f"{HEAD}roles:\n  main:\n    entrypoint: env\n"
    if kind == "resource":
        return f"{role}    resource:\n{block('      ', fields)}"
    if kind == "mount":
        own = {"type": "device" if {"permissions", "mode", "perm"} & given else "bind"}
        own |= {"src": "/a"} if not SOURCES & given else {}
        own |= {"dst": "/b"} if not DESTINATIONS & given else {}
        return f"{role}    mounts:\n      -\n{block('        ', {**own, **fields})}"
    probe = {} if {"port", "http", "command", "path", "test", "exec", "tcp"} & given else {"port": 80}
    probe |= {"port": 80} if {"http", "path"} & given else {}
    user = "  user: {entrypoint: env, depends_on: [main]}\n"
    return f"{role}    service: true\n    ready:\n{block('      ', {**probe, **fields})}{user}"


def block(indent: str, fields: dict[str, Any]) -> str:
    return "".join(f"{indent}{entry(key, value, 'yaml')}\n" for key, value in fields.items())


@pytest.mark.parametrize("name", ["nope", "none", "mode", "note", "flags", "comment", "values"])
def test_a_word_of_another_tool_is_not_guessed_from_few_common_letters(tmp_path: Path, name: str) -> None:
    [found] = compile_text(tmp_path, text("role", {name: "x"})).diagnostics
    assert (found.label, found.hint.partition(":")[0]) == ("", "fields here")


@pytest.mark.parametrize(
    ("name", "advice"), [("comand", "entrypoint"), ("hostnme", "host"), ("nodse", "num_replicas")]
)
def test_a_word_of_another_tool_may_be_misspelt(tmp_path: Path, name: str, advice: str) -> None:
    [found] = compile_text(tmp_path, text("role", {name: "x"})).diagnostics
    assert advice in f"{found.label}{found.hint}"


@pytest.mark.parametrize(("kind", "name", "word"), ROWS)
def test_a_word_of_another_tool_is_answered(tmp_path: Path, kind: str, name: str, word: Word) -> None:
    found = compile_text(tmp_path, text(kind, {name: word.example})).diagnostics
    wrong = [each for each in found if each.code == "unknown-field"]
    assert len(wrong) == 1, [str(each) for each in found]
    assert f"`{name}` is not a field of" in wrong[0].message
    if word.reason:
        assert wrong[0].hint == word.reason
        return
    fields = word.fields(word.example)
    assert fields
    first = next(iter(fields))
    renamed = {first: word.example} == dict(fields)
    entries = ", ".join(f"`{entry(*each, 'yaml')}`" for each in fields.items())
    if "\n" in str(fields.get("run", "")):
        entries = "`run: |`, and each command on a line of its own below"
    assert wrong[0].label == (f"did you mean `{first}`?" if renamed else f"write {entries}")


@pytest.mark.parametrize(("kind", "name", "word"), [row for row in ROWS if not row.values[2].reason])
def test_the_field_that_an_answer_names_is_valid_in_its_place(tmp_path, kind, name, word):
    fields = word.fields(word.example)
    assert fields
    if {"cfg", "scheduler"} & fields.keys():
        return  # of Slurm, which the test of its options knows
    (tmp_path / "prepare.launcher.yaml").write_text(HEAD.replace("job", "prepare") + ROLES)
    (tmp_path / "a.py").write_text("")
    found = compile_text(tmp_path, text(kind, dict(fields)), placeholders=True).diagnostics
    assert [str(each) for each in found if each.severity == "error"] == []


def test_the_options_that_answers_name_are_options_of_slurm() -> None:
    options = get_scheduler_factories()["slurm"]("test").run_opts()
    named = [word.fields(word.example) for _, _, word in (row.values for row in ROWS)]
    cfg = [name for fields in named if fields for name in fields.get("cfg", ())]
    assert cfg
    assert [name for name in cfg if options.get(name) is None] == []


def test_an_answer_leaves_out_fields_that_the_file_has(tmp_path: Path) -> None:
    source = text("job", {"scheduler": "slurm", "cfg": {"account": "ml"}, "partition": "gpu"})
    wrong = [each for each in compile_text(tmp_path, source).diagnostics if "`partition`" in each.message]
    assert [each.label for each in wrong] == ["write `partition: gpu` in `cfg`"]
    source = text("job", {"scheduler": "slurm", "partition": "gpu"})
    wrong = [each for each in compile_text(tmp_path, source).diagnostics if "`partition`" in each.message]
    assert [each.label for each in wrong] == ["write `cfg: {partition: gpu}`"]


def test_explain_has_a_page_for_each_word(capsys: pytest.CaptureFixture[str]) -> None:
    for kind, name, word in (row.values for row in ROWS):
        assert main(["explain", name]) == 0
        shown = capsys.readouterr().out
        assert f"`{entry(name, word.example, 'yaml')}` in " in shown
        assert word.tools in shown
        if name in (*CODES, *REASONS):
            continue  # its JSON is of the code
        assert main(["explain", name, "--json"]) == 0
        answers = json.loads(capsys.readouterr().out)
        assert kind in [each["mapping"] for each in answers], name
        answer = word.reason or word.fields(word.example)
        assert answer in [each["answer"] for each in answers], name


def test_no_word_is_a_field_of_ours() -> None:
    for kind, name, word in (row.values for row in ROWS):
        assert name not in fields_at(PATHS[kind])
        assert name == name.lower().replace("-", "_")
        assert word_for(PATHS[kind], name.upper().replace("_", "-"), word.example) == word
