"""References to output folders: of the job itself, and of the jobs that it needs."""

from __future__ import annotations

from pathlib import Path

from launcher.specs.outputs import has_output, jobs_read
from tests.unit.jobfile.words import HEAD, compile_text, launch


def role(arg: str) -> str:
    return f"roles:\n  main: {{entrypoint: sh, args: [-c, '{arg}']}}\n"


def test_they_stay_symbolic_in_the_document(tmp_path: Path) -> None:
    text = "cp $<needs.prepare.output_dir>/x $<output_dir>/y"
    made = launch(tmp_path, f"{HEAD}needs: [prepare]\n{role(text)}")
    assert made.app.roles[0].args == ["-c", text]
    assert (has_output(made.app), jobs_read(made.app)) == (True, ["prepare"])


def test_the_name_of_the_variable_in_a_text_makes_a_folder_too(tmp_path: Path) -> None:
    assert has_output(launch(tmp_path, HEAD + role('echo >"$LAUNCHER_OUTPUT_DIR/x"')).app)
    assert not has_output(launch(tmp_path, HEAD + role("echo $$<output_dir>")).app)


def test_the_folder_of_a_job_that_is_not_needed_is_an_error_at_the_reference(tmp_path: Path) -> None:
    text = f"{HEAD}needs: [prepare]\n{role('cat $<needs.train.output_dir>/x')}"
    (found,) = compile_text(tmp_path, text).errors
    assert found.code == "unknown-reference"
    assert "job `train` is not among this job's `needs`" in found.message


def test_of_a_need_only_the_folder_is_known(tmp_path: Path) -> None:
    (found,) = compile_text(tmp_path, f"{HEAD}needs: [prepare]\n{role('$<needs.prepare.dir>')}").errors
    assert found.label == "write `$<needs.prepare.output_dir>`"
