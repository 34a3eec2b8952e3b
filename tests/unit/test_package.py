"""The names at the top of the package: all are there, and none is loaded before it is used."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

import launcher

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "launcher").rglob("__init__.py"))
PACKAGES = [file for file in FILES if "hand_on(" in file.read_text()]
OWN = {"launcher": ["__version__"]}

JOB = "version: 1\nname: grid\nmatrix: {lr: [1, 2]}\nroles: {main: {entrypoint: 'true'}}\n"


@pytest.mark.parametrize("name", launcher.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(launcher, name).__doc__


@pytest.mark.parametrize("file", PACKAGES, ids=lambda file: file.parent.name)
def test_a_package_hands_on_exactly_the_names_that_type_checkers_see(file: Path) -> None:
    package = import_module(".".join(file.parent.relative_to(ROOT).parts))
    (hidden,) = [each for each in ast.parse(file.read_text()).body if isinstance(each, ast.If)]
    seen = {
        name.asname: (node.module, name.name)
        for node in hidden.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if name.asname
    }
    assert dir(package) == sorted(package.__all__) == sorted({*seen, *OWN.get(package.__name__, ())})
    for public, (module, name) in seen.items():
        assert public == name
        assert package.__getattr__(name) is getattr(import_module(str(module)), name)


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
