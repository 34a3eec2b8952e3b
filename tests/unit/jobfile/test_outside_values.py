"""Values that a job file takes from outside: launcher.toml, secrets, the workspace, watched files."""

from pathlib import Path

import pytest

from launcher.jobfile import compile_files
from launcher.specs import Trigger, digest, document
from tests.unit.jobfile.words import HEAD, ROLES, compile_text, labels, launch, lines, places

USE = HEAD + "vars: {n: {type: float, default: 1}, s: {type: str, from_env: S, default: d}}\n"
USE += (
    "roles: {main: {entrypoint: x, args: [$<var.n>, $<var.s>]}}\ntargets: {dev: {vars: {s: {default: t}}}}\n"
)


# Files of values


@pytest.mark.parametrize(("name", "text"), [
    ("v.yaml", "n: 0.10\ns: no\n"), ("v.json", '{"n": 0.10, "s": "no"}'), ("v.toml", 'n = 0.10\ns = "no"\n'),
])  # fmt: skip
def test_values_come_from_files_as_they_are_written(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert launch(tmp_path, USE, var_files=[name]).app.roles[0].args == ["0.10", "no"]


def test_var_wins_over_files_later_files_win_and_all_win_over_the_file_itself(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("n: 1\ns: a\n")
    (tmp_path / "b.yaml").write_text("n: 2\n")

    def args(*files: str, **variables: str) -> list[str]:
        made = launch(tmp_path, USE, var_files=files, variables=variables, environ={"S": "env"}, target="dev")
        return made.app.roles[0].args

    assert args("a.yaml", "b.yaml") == ["2", "a"]
    assert args("b.yaml", "a.yaml", n="3") == ["3", "a"]
    assert args("b.yaml") == ["2", "t"]


@pytest.mark.parametrize(("text", "expected"), [
    ("n: x\n", 'variable `n` is "x" from v.yaml:1, and must be a number'),
    ("\ns: 3\n", "variable `s` is 3 from v.yaml:2, and must be text"),
])  # fmt: skip
def test_a_wrong_value_points_at_the_definition_and_at_the_file(tmp_path, text, expected):
    (tmp_path / "v.yaml").write_text(text)
    compiled = compile_text(tmp_path, USE, var_files=["v.yaml"])
    assert [found.message for found in compiled.diagnostics] == [expected]
    assert [place.file for place in compiled.diagnostics[0].related] == ["v.yaml"]


@pytest.mark.parametrize(("text", "place", "label"), [
    ("n: 1\nm: [1]\n", "2:4 wrong-type", "write a text, a number or a truth value"),
    ("n: 1\nss: x\n", "2:5 unknown-variable", "did you mean `s`?"), ("n: 1\nn: 2\n", "2:1 duplicate-key", ""),
    ("- n\n", "1:1 wrong-type", ""), ("n: {\n", "1:5 yaml-syntax", ""),
])  # fmt: skip
def test_a_mistake_in_a_file_of_values_is_shown_in_that_file(tmp_path, text, place, label):
    (tmp_path / "v.yaml").write_text(text)
    compiled = compile_text(tmp_path, USE, var_files=["v.yaml"])
    assert places(compiled)[:1] == [place]
    assert compiled.diagnostics[0].file == "v.yaml"
    assert label in labels(compiled)[0]


def test_a_missing_file_of_values_is_an_error(tmp_path: Path) -> None:
    assert places(compile_text(tmp_path, USE, var_files=["no.yaml"])) == ["no-such-file"]


# launcher.toml


def test_a_projects_target_is_for_the_files_that_have_targets(tmp_path: Path) -> None:
    (tmp_path / "launcher.toml").write_text('target = "dev"\n')
    assert launch(tmp_path, HEAD + ROLES).key.target == "default"
    compiled = compile_text(tmp_path, HEAD + ROLES + "targets: {dve: {}}\n")
    assert places(compiled) == ["4:1 unknown-target"]
    assert [place.file for place in compiled.diagnostics[0].related] == ["launcher.toml"]


# Secrets


# Workspace and watched files


def test_a_workspace_is_in_the_digest_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("1")
    text = HEAD + ROLES + "workspace: ./src\n"
    first, again = launch(tmp_path, text), launch(tmp_path, text)
    assert first == again
    assert (first.workspace.path, bool(first.workspace.digest)) == ("./src", True)
    (tmp_path / "src" / "train.py").write_text("2")
    assert digest(document(launch(tmp_path, text))) != digest(document(first))


@pytest.mark.parametrize(
    ("path", "wording"),
    [("no", "the workspace `no` does not exist"), ("f", "the workspace `f` is no folder")],
)
@pytest.mark.parametrize("placeholders", [True, False])
def test_a_workspace_is_a_folder(tmp_path: Path, path: str, wording: str, placeholders: bool) -> None:
    (tmp_path / "f").write_text("")
    text = HEAD + ROLES + f"workspace: {path}\n"
    assert lines(compile_text(tmp_path, text, placeholders=placeholders)) == [f"4:12 invalid-value {wording}"]


def test_watched_files_are_hashed_and_outside_the_digest(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_text("1")
    text = HEAD + ROLES + "lifecycle: {rerun_on: [{files: ['data/*.csv', 'more/**']}, every_apply]}\n"
    first = launch(tmp_path, text)
    assert first.lifecycle.rerun_on == (Trigger("files", ("data/*.csv", "more/**")), Trigger("every_apply"))
    assert first.trigger_digest
    (tmp_path / "data" / "a.csv").write_text("2")
    second = launch(tmp_path, text)
    assert second.trigger_digest != first.trigger_digest
    assert digest(document(second)) == digest(document(first))


def test_a_file_of_values_may_look_like_a_file_of_another_tool(tmp_path):
    (tmp_path / "values.yaml").write_text("web: python app.py\nrun: python x.py\nresources: gpu\n")
    text = "vars: {web: {type: str}, run: {type: str}, resources: {type: str}}\n"
    text += "roles: {main: {entrypoint: echo, args: [$<var.web>, $<var.run>, $<var.resources>]}}\n"
    (tmp_path / "a.launcher.yaml").write_text(f"version: 1\nname: a\n{text}")
    compiled = compile_files([str(tmp_path / "a.launcher.yaml")], var_files=[str(tmp_path / "values.yaml")])
    assert compiled.diagnostics == ()
    assert compiled.launches[0].app.roles[0].args == ["python app.py", "python x.py", "gpu"]
