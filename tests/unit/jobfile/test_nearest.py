"""A misspelt name is answered with the nearest name, or, if none is near, with all names."""

from pathlib import Path

import pytest

from launcher.jobfile import Environment, compile_files
from tests.unit.jobfile.words import HEAD, compile_text

VAR = "vars: {epochs: {type: int, default: 1}}\n"


def role(fields: str, top: str = "") -> str:
    return HEAD + top + f"roles: {{main: {{entrypoint: x, {fields}}}}}\n"


def job(top: str) -> str:
    return HEAD + top + "roles: {main: {entrypoint: x}}\n"


def test_a_misspelt_variable_on_the_command_line_gets_the_nearest_variable(tmp_path: Path) -> None:
    text = role("args: [$<var.epochs>]", VAR)
    [found] = compile_text(tmp_path, text, variables={"epoch": "1"}).errors
    assert (found.code, found.label) == ("unknown-variable", "did you mean `epochs`?")
    [found] = compile_text(tmp_path, text, variables={"zzz": "1"}).errors
    assert found.hint == "declared: epochs"


def test_a_misspelt_choice_on_the_command_line_gets_the_nearest_choice(tmp_path: Path) -> None:
    text = role("args: [$<var.p>]", "vars: {p: {type: str, default: fp32, choices: [fp32, bf16]}}\n")
    [found] = compile_text(tmp_path, text, variables={"p": "bf61"}).errors
    assert (found.label, found.hint) == ("did you mean `bf16`?", "choices: bf16, fp32")


@pytest.mark.parametrize(
    ("typed", "hint"), [("trian", True), ("train", True), ("zzz/train", False), ("q", False)]
)
def test_a_misspelt_file_name_gets_the_nearest_job_file(tmp_path: Path, typed: str, hint: bool) -> None:
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "train.launcher.yaml").write_text(job(""))
    name = "jobs/" + ("trian.launcher.yaml" if typed == "trian" else typed)
    [found] = compile_files([name], environment=Environment(cwd=str(tmp_path))).errors
    assert found.code == "no-such-file"
    assert found.hint == ("did you mean `jobs/train.launcher.yaml`?" if hint else "")


def test_the_suffix_that_all_job_files_share_makes_no_name_near(tmp_path: Path) -> None:
    (tmp_path / "e.launcher.yaml").write_text(job(""))
    (tmp_path / "train.launcher.yaml").write_text(job(""))
    hints = {}
    for name in ("other.launcher.yaml", "trian.launcher.toml", "train.launcher.yml"):
        [found] = compile_files([name], environment=Environment(cwd=str(tmp_path))).errors
        hints[name] = found.hint
    near = "did you mean `train.launcher.yaml`?"
    assert hints == {"other.launcher.yaml": "", "trian.launcher.toml": near, "train.launcher.yml": near}


def test_a_link_to_nothing_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "a.launcher.yaml").symlink_to("gone.yaml")
    [found] = compile_files([str(tmp_path)]).errors
    assert (found.code, found.message) == ("no-such-file", "the file is a link, and there is no such file")
    assert found.hint == ""
