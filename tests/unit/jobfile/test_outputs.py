"""References to output folders: of the job itself, and of the jobs that it needs."""

from dataclasses import replace
from pathlib import Path

import pytest

from launcher.jobfile import Compiled, Environment, compile_files
from launcher.schedulers.registry import SchedulerRules
from launcher.specs.outputs import has_output, jobs_read
from tests.unit.jobfile.words import HEAD, launch


def role(arg: str) -> str:
    return f"roles:\n  main: {{entrypoint: sh, args: [-c, '{arg}']}}\n"


def test_output_folders_stay_symbolic_in_the_document(tmp_path: Path) -> None:
    text = "cp $<needs.prepare.output_dir>/x $<output_dir>/y"
    made = launch(tmp_path, f"{HEAD}needs: [prepare]\n{role(text)}")
    assert made.app.roles[0].args == ["-c", text]
    assert (has_output(made.app), jobs_read(made.app)) == (True, ["prepare"])


def test_the_name_of_the_variable_in_a_text_makes_a_folder_too(tmp_path: Path) -> None:
    assert has_output(launch(tmp_path, HEAD + role('echo >"$LAUNCHER_OUTPUT_DIR/x"')).app)
    assert not has_output(launch(tmp_path, HEAD + role("echo $$<output_dir>")).app)


def compiled_files(folder: Path, monkeypatch: pytest.MonkeyPatch, engine: str = "", **texts: str) -> Compiled:
    """Job files compiled together, with the real schedulers and a Docker engine at this address."""
    monkeypatch.setenv("DOCKER_HOST", engine or "unix:///var/run/docker.sock")
    for name, text in texts.items():
        (folder / f"{name}.launcher.yaml").write_text(f"version: 1\nname: {name}\n{text}")
    known = SchedulerRules()
    environment = Environment(schedulers=known, reach=known.unreadable, cwd=str(folder))
    return compile_files(["."], environment=environment, placeholders=True, neighbours=True)


LEAVES = role("echo >$<output_dir>/x")
READS = f"needs: [prepare]\n{role('cat $<needs.prepare.output_dir>/x $<needs.prepare.output_dir>/y')}"
IN_DOCKER = "scheduler: local_docker\n"


def with_image(text: str) -> str:
    return text.replace("{entrypoint", "{image: 'busybox:1.37', entrypoint")


@pytest.mark.parametrize(("keeper", "reader", "engine", "why"), [
    (IN_DOCKER, "", "", "local_docker keeps the output folder of `prepare`, and an app of local_cwd"),
    ("", IN_DOCKER, "ssh://ann@node1", "the engine at ssh://ann@node1 has no folders of this machine"),
    ("", IN_DOCKER, "tcp://127.0.0.1:2375", "has no folders of this machine"),
])  # fmt: skip
def test_a_folder_of_another_engine_is_an_error_at_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeper: str, reader: str, engine: str, why: str
) -> None:
    made = compiled_files(
        tmp_path,
        monkeypatch,
        engine,
        prepare=keeper + (with_image(LEAVES) if keeper else LEAVES),
        train=reader + (with_image(READS) if reader else READS),
    )
    (found,) = made.errors
    assert (found.file, found.code) == ("./train.launcher.yaml", "needs-across-engines")
    assert why in found.message
    text = (tmp_path / "train.launcher.yaml").read_text().splitlines()
    assert text[found.span.line - 1][found.span.column - 1 :].startswith("$<needs.prepare.output_dir>/x")
    assert [each.key.job for each in made.launches] == ["prepare"]


@pytest.mark.parametrize("reader", ["", "scheduler: local_dir\n", IN_DOCKER])
def test_a_local_folder_can_be_read_here_and_in_containers_of_this_machine(tmp_path, monkeypatch, reader):
    train = reader + with_image(READS).replace("busybox:1.37", "busybox:1.37" if "docker" in reader else "/")
    assert not compiled_files(tmp_path, monkeypatch, prepare=LEAVES, train=train).errors


def test_the_engine_of_a_need_that_no_given_file_declares_is_not_checked(tmp_path, monkeypatch):
    assert not compiled_files(tmp_path, monkeypatch, train=READS).errors


def test_the_folder_of_a_matrix_is_an_error_at_the_reference(tmp_path, monkeypatch):
    train = f"matrix: {{size: [1, 2]}}\n{READS}"
    (found,) = compiled_files(
        tmp_path, monkeypatch, prepare=f"matrix: {{lr: [1, 2, 3]}}\n{LEAVES}", train=train
    ).errors
    assert (found.file, found.code) == ("./train.launcher.yaml", "unknown-reference")
    assert (found.span.line, found.span.column) == (6, READS.splitlines()[2].index("$<") + 1)
    assert "`prepare` is a matrix, and each of its jobs has a folder" in found.message
    assert "LAUNCHER_NEEDS" in found.label


def test_the_folder_of_a_matrix_in_a_file_that_is_not_given_is_the_same_error(tmp_path, monkeypatch):
    matrix = f"matrix: {{lr: [1, 2, 3]}}\n{LEAVES}"
    both = compiled_files(tmp_path, monkeypatch, prepare=matrix, train=READS).errors
    alone = compile_files(
        ["train.launcher.yaml"],
        environment=Environment(cwd=str(tmp_path)),
        placeholders=True,
        neighbours=True,
    ).errors
    assert [replace(each, file="") for each in alone] == [replace(each, file="") for each in both]
    (tmp_path / "prepare.launcher.yaml").write_text(f"version: 1\nname: prepare\n{LEAVES}")
    found = compile_files(
        ["train.launcher.yaml"],
        environment=Environment(cwd=str(tmp_path)),
        placeholders=True,
        neighbours=True,
    )
    assert not found.errors


def test_the_folder_of_one_job_of_a_matrix_may_be_read(tmp_path, monkeypatch):
    train = READS.replace("prepare", "prepare-2")
    assert not compiled_files(
        tmp_path, monkeypatch, prepare=f"matrix: {{lr: [1, 2, 3]}}\n{LEAVES}", train=train
    ).errors
