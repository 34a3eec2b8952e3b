"""Where the job file of an attempt is."""

import subprocess

import pytest

from launcher.errors import LauncherError
from launcher.inventory.project import job_file


def test_the_file_of_an_attempt_is_below_its_root_or_in_a_checkout_of_its_repository(tmp_path, monkeypatch):
    (tmp_path / "jobs").mkdir()
    file = tmp_path / "jobs" / "a.launcher.yaml"
    file.touch()
    monkeypatch.chdir(tmp_path / "jobs")
    assert job_file(str(tmp_path), "jobs/a.launcher.yaml") == str(file)
    with pytest.raises(LauncherError, match="no checkout"):
        job_file("example.com/vision/jobs", "jobs/a.launcher.yaml")
    for words in ("init -q", "remote add origin https://example.com/vision/jobs"):
        subprocess.run(["git", *words.split()], check=True, cwd=tmp_path)
    assert job_file("example.com/vision/jobs", "jobs/a.launcher.yaml") == str(file)
    file.unlink()
    with pytest.raises(LauncherError, match="not there any more"):
        job_file(str(tmp_path), "jobs/a.launcher.yaml")
