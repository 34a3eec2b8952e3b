"""Output folders of jobs on a cluster are shown and copied as those of local jobs."""

from pathlib import Path

from tests.scenarios.test_outputs import READ, WRITE, TestLoss, lose, pipeline  # noqa: F401


def test_status_names_the_folder_and_its_files_can_be_copied(scenario):
    scenario.job(WRITE, name="prepare")
    scenario.run_to_end(".")
    folder = scenario.status("prepare")["output"]
    assert (Path(folder) / "lines").read_text() == "data\n"
    assert scenario.launcher("output", "prepare").out == f"{folder}\n"
    scenario.launcher("output", "prepare", "--copy", "got")
    assert (scenario.folder / "got" / "lines").read_text() == "data\n"


def test_files_of_an_output_folder_are_copied_through_ssh(there, tmp_path):
    there.job(f"{WRITE}; head -c 5000000 /dev/zero >$LAUNCHER_OUTPUT_DIR/big", name="prepare")
    there.run_to_end("prepare.launcher.yaml")
    there.launcher("output", "prepare", "--copy", str(tmp_path / "got"))
    assert (tmp_path / "got" / "lines").read_text() == "data\n"
    assert (tmp_path / "got" / "big").stat().st_size == 5_000_000
