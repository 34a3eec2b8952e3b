"""yaml-language-server on job files: its marks, its completions and its explanations."""

import re
from pathlib import Path

import pytest

from tests.corpus.test_schema import OTHER_READING, is_valid
from tests.corpus.words import BAD, name_of
from tests.editors.conftest import ROOT
from tests.editors.lsp import Server
from tests.unit.jobfile.words import compile_text

MODELINE = "# yaml-language-server: $schema=../../schemas/job-v1.schema.json\n"
HEAD = MODELINE + "version: 1\nname: a\n"
ROLE = HEAD + "roles:\n  main:\n    entrypoint: x\n"
CORPUS = sorted((ROOT / "tests" / "corpus" / "good").rglob("*.launcher.yaml"))
EXAMPLES = sorted((ROOT / "examples").rglob("*.launcher.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_server_marks_nothing_in_an_example(server: Server, path: Path) -> None:
    text = path.read_text()
    assert text.startswith(MODELINE)
    assert server.findings(text) == []


def test_the_server_marks_nothing_in_the_corpus_of_good_files(server: Server) -> None:
    texts = {path.name: MODELINE + path.read_bytes().decode("utf-8-sig") for path in CORPUS}
    found = zip(texts, server.findings_in([*texts.values()]), strict=True)
    assert {name: marks for name, marks in found if marks} == {}


def test_the_server_marks_each_file_that_the_schema_refuses(server: Server) -> None:
    files = [path for path in BAD if path.suffix == ".yaml" and path.parent.name != "encodings"]
    refused = [path for path in files if is_valid(path) is False]
    found = server.findings_in([MODELINE + path.read_bytes().decode("utf-8-sig") for path in refused])
    unmarked = {name_of(path) for path, marks in zip(refused, found, strict=True) if not marks}
    assert unmarked <= set(OTHER_READING["takes"])


# What is added to a good file → the marked texts, and the words about the first of them.
WRONG = {
    "    num_replica: 2\n": (["num_replica"], "Property num_replica is not allowed."),
    "    num_replicas: 0\n": (["0"], "Value is below the minimum of 1."),
    "    num_replicas: two\n": (["two"], "want an integer, or a reference such as $<var.NAME>"),
    "    num_replicas: 1.5\n": (["1.5"], "Incorrect type. Expected one of integer, string, null."),
    "    retry_policy: never\n": (["never"],
        'Value is not accepted. Valid values: "application", "replica", "role".'),
    "    args: text\n": (["text"], "Incorrect type. Expected one of array, null."),
    "    env: {A: {secret: KEY}}\n": (["KEY"],
        'want "env:NAME" or "file:PATH", or a reference such as $<var.NAME>'),
    "    resource: {memory: 4gigs}\n": (["4gigs"],
        'want an amount with its unit, such as "4GiB" or "512MiB", or a reference such as $<var.NAME>'),
    "    port_map: {a: 70000}\n": (["70000"], "Value is above the maximum of 65535."),
    "    mounts:\n      - {type: volume, src: a, dst: /a}\n      - {type: bind, src: a}\n": (["{"],
        'Missing property "dst".'),
    "timeout: soon\n": (["soon"],
        'want a duration such as "2h", "90s" or "1h30m", or a reference such as $<var.NAME>'),
    "enabled: yes\n": (["yes"], "want a boolean, or a reference such as $<var.NAME>"),
    "lifecycle: {on_failed: retry}\n": (["retry"], 'Value is not accepted. Valid values: "hold", "rerun".'),
    "vars: {n: {type: int, default: x}}\n": (["x"], "Incorrect type. Expected one of integer, null."),
    "targets: {dev: {roles: {main: {imgae: x}}}}\n": (["imgae"], "Property imgae is not allowed."),
    "image: x\n": (["image"], "Property image is not allowed."),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=str.strip)
def test_the_server_marks_each_mistake_at_its_place_with_our_message(server: Server, wrong: str) -> None:
    found = server.findings(ROLE + wrong)
    marked, message = WRONG[wrong]
    assert [finding.marked for finding in found] == marked
    assert found[0].message == message
    assert found[0].line == (ROLE + wrong).rstrip("\n").count("\n") + 1


def test_the_server_and_launcher_mark_the_same_texts(server: Server, tmp_path: Path) -> None:
    """Both mark each mistake that a schema can express, on the same line."""
    for wrong, found in zip(WRONG, server.findings_in([ROLE + wrong for wrong in WRONG]), strict=True):
        lines = {finding.line for finding in found}
        ours = {error.span.line for error in compile_text(tmp_path, ROLE + wrong).errors if error.span}
        assert lines == ours, wrong


COMPONENT = HEAD + "component: utils.echo\n"
OF_COMPONENTS = {
    COMPONENT + "args: {mesg: x}\n": ["mesg"],
    COMPONENT + "args: {num_replicas: [1]}\n": ["[1]"],
    COMPONENT + "roles: {main: {entrypoint: env}}\n": ["roles"],
    COMPONENT + "defaults: {role: {image: x}}\n": ["defaults"],
    HEAD + "args: {msg: x}\nroles: {main: {entrypoint: env}}\n": ["args"],
    COMPONENT + "args: {msg: x, num_replicas: $<var.n>}\n": [],
    HEAD + "component: mine.own\nargs: {mesg: x}\n": [],
}


def test_the_server_marks_fields_that_exclude_a_component(server: Server) -> None:
    found = {text: [finding.marked for finding in server.findings(text)] for text in OF_COMPONENTS}
    assert found == OF_COMPONENTS


def test_the_server_offers_components_and_their_arguments(server: Server) -> None:
    assert {"utils.echo", "dist.ddp"} <= server.complete(HEAD + "component: |").keys()
    assert {"msg", "num_replicas"} <= server.complete(COMPONENT + "args:\n  |").keys()


def test_the_server_marks_nothing_in_a_text_with_references(server: Server) -> None:
    text = ROLE + "    num_replicas: $<var.n>\n    retry_policy: $<var.p>\n    args: [$<app_id>, $HOME]\n"
    text += "enabled: $<var.e>\ntimeout: $<var.t>\nvars: {n: {type: int}}\n"
    assert server.findings(text) == []


@pytest.mark.parametrize(("text", "values"), [
    (ROLE + "    retry_policy: |", {"application", "replica", "role"}),
    (ROLE + "    mounts:\n      - type: |", {"bind", "volume", "device"}),
    (ROLE + "lifecycle:\n  on_change: |", {"replace", "hold"}),
    (ROLE + "lifecycle:\n  on_failed: |", {"hold", "rerun"}),
    (ROLE + "lifecycle:\n  rerun_on:\n    - |", {"every_apply"}),
    (ROLE + "vars:\n  n:\n    type: |", {"int", "float", "str", "bool"}),
])  # fmt: skip
def test_the_server_offers_the_values_of_a_choice_with_their_meaning(server, text, values):
    offered = server.complete(text)
    assert values <= offered.keys()
    assert all(offered[value].words.endswith(".") for value in values)


@pytest.mark.parametrize(("text", "label"), [
    (MODELINE + "|", "job"), (MODELINE + "|", "job of a component"), (HEAD + "roles:\n  |", "role"),
    (HEAD + "roles:\n  main:\n    |", "role"), (ROLE + "    mounts:\n      - |", "bind mount"),
    (ROLE + "    mounts:\n      - |", "volume mount"), (ROLE + "    mounts:\n      - |", "device mount"),
    (ROLE + "    mounts:\n      |", "bind mount"),
])  # fmt: skip
def test_a_snippet_makes_a_good_file(server: Server, tmp_path: Path, text: str, label: str) -> None:
    whole = inserted(text, server.complete(text)[label].text)
    assert server.findings(whole) == []
    assert compile_text(tmp_path, whole).errors == ()


def inserted(text: str, snippet: str) -> str:
    """Return the text after an editor inserts a snippet at the mark: places filled, lines indented."""
    before, _, after = text.partition("|")
    line = before.rpartition("\n")[2]
    indent = line[: len(line) - len(line.lstrip(" "))]
    filled = re.sub(r"\$\{\d:([^}]*)\}", r"\1", snippet)
    return before + filled.replace("\n", f"\n{indent}") + after + "\n"


@pytest.mark.parametrize(("text", "words"), [
    (ROLE + "    retry_policy: repl|ica\n",
        ["What restarts when a replica fails.", "`replica`: Only the replica that failed"]),
    (ROLE.replace("main", "ma|in"), ["One kind of replica"]),
])  # fmt: skip
def test_the_server_explains_the_word_under_the_pointer(server: Server, text: str, words: list[str]) -> None:
    events = server.hover(text)
    assert [word for word in words if word not in events] == []
    assert "||" not in events  # what the server makes of alternatives that it cannot tell apart
