"""The names at the top of the package: all are there, and none is loaded before it is used."""

from pathlib import Path

import pytest

import launcher

JOB = "version: 1\nname: grid\nmatrix: {lr: [1, 2]}\nroles: {main: {entrypoint: 'true'}}\n"


@pytest.mark.parametrize("name", launcher.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(launcher, name).__doc__


def test_the_public_names_are_exactly_the_names_with_a_home_module() -> None:
    assert dir(launcher) == sorted([*launcher._HOMES, "__version__"])


def test_all_jobs_of_a_file_are_loaded_and_planned_without_further_imports(tmp_path: Path) -> None:
    (tmp_path / "grid.launcher.yaml").write_text(JOB)
    (tmp_path / "one.launcher.yaml").write_text(
        JOB.replace("matrix: {lr: [1, 2]}\n", "").replace("grid", "x")
    )
    launches = launcher.load_jobs(tmp_path)
    assert [each.key.job for each in launches] == ["grid-1", "grid-2", "x"]
    plan = launcher.make_plan(launches, choices=launcher.Choices(retry_failed=True))
    assert isinstance(plan, launcher.Plan)
    assert isinstance(launcher.AppState.FAILED, launcher.AppState)


def test_wrong_files_raise_an_error_that_the_package_names(tmp_path: Path) -> None:
    file = tmp_path / "grid.launcher.yaml"
    file.write_text(JOB)
    with pytest.raises(launcher.JobFileError) as caught:
        launcher.load_job(file)
    assert caught.value.diagnostics[0].hint == "load_jobs gives all of them"
    with pytest.raises(launcher.LauncherError):
        launcher.load_jobs(tmp_path / "none")
