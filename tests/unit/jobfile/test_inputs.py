"""`inputs` of a job file: the globs and the digest of a job, and mistakes in the list."""

import os
from pathlib import Path

import pytest

from launcher.jobfile import compile_files
from tests.unit.jobfile.words import HEAD, ROLES, compile_text, launch, places


@pytest.fixture(autouse=True)
def checkout(tmp_path: Path) -> Path:
    for name in ("train.py", "conf/a.yaml", "conf/deep/b.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def job(inputs: str, more: str = "") -> str:
    return f"{HEAD}{more}{ROLES}inputs: {inputs}\n"


def test_a_launch_has_the_globs_as_written_and_the_hash_of_the_files(tmp_path: Path) -> None:
    made = launch(tmp_path, job('[train.py, "conf/**/*.yaml"]'))
    assert made.inputs == ("train.py", "conf/**/*.yaml")
    assert made.inputs_digest.startswith("in1:sha256:")
    (tmp_path / "train.py").write_text("other")
    assert launch(tmp_path, job('[train.py, "conf/**/*.yaml"]')).inputs_digest != made.inputs_digest


def test_variables_matrix_and_targets_fill_in_the_globs(tmp_path: Path) -> None:
    text = job(
        "[$<matrix.of>.py, $<var.dir>]",
        "vars: {dir: {type: str, default: conf}}\nmatrix: {of: [train]}\n"
        "targets: {dev: {inputs: [conf/a.yaml]}}\n",
    )
    assert launch(tmp_path, text).inputs == ("train.py", "conf")
    assert launch(tmp_path, text, target="dev").inputs == ("conf/a.yaml",)
    assert launch(tmp_path, text, variables={"dir": "conf/deep"}).inputs == ("train.py", "conf/deep")


def test_a_glob_that_matches_nothing_is_a_warning_and_counts(tmp_path: Path) -> None:
    compiled = compile_text(tmp_path, job('["data/*.csv"]'))
    assert [each.code for each in compiled.diagnostics] == ["unmatched-glob"]
    before = compiled.launches[0].inputs_digest
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.csv").touch()
    assert launch(tmp_path, job('["data/*.csv"]')).inputs_digest != before


def test_a_link_that_leaves_and_a_pipe_are_errors_at_their_glob(tmp_path: Path) -> None:
    (tmp_path / "conf/out.yaml").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    found = places(compile_text(tmp_path, HEAD + ROLES + 'inputs:\n- train.py\n- "conf/*.yaml"\n- pipe\n'))
    assert [(each.split(":")[1]) for each in found] == ["3 unreadable", "3 invalid-value"]


def test_validate_reads_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> bytes:
        raise AssertionError(path)

    monkeypatch.setattr("launcher.workspace.seen.file_hash", refuse)
    file = tmp_path / "job.launcher.yaml"
    file.write_text(job("[train.py, conf]"))
    compiled = compile_files([str(file)], placeholders=True)
    assert (compiled.diagnostics, compiled.launches[0].inputs_digest) == ((), "")


def test_jobs_of_several_files_share_one_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from launcher.workspace import seen as hashes

    read: list[str] = []
    real = hashes.file_hash
    monkeypatch.setattr(hashes, "file_hash", lambda path: read.append(os.path.basename(path)) or real(path))
    for number in range(20):
        text = job('[train.py, "conf/**/*.yaml"]').replace("name: train", f"name: train-{number}")
        (tmp_path / f"{number}.launcher.yaml").write_text(text)
    compiled = compile_files([str(tmp_path)])
    assert len({each.inputs_digest for each in compiled.launches}) == 1
    assert sorted(read) == ["a.yaml", "b.yaml", "train.py"]
