"""The zip that runs on the nodes."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import zipfile

from launcher.schedulers.slurm.program import program


def texts() -> dict[str, str]:
    """Path → text of each module."""
    with zipfile.ZipFile(io.BytesIO(program())) as file:
        return {name: file.read(name).decode() for name in file.namelist()}


def test_it_holds_all_that_its_modules_import_of_ours_and_no_more_than_the_standard_library_besides():
    found = texts()
    for path, text in found.items():
        tree = ast.parse(text, path, feature_version=(3, 6))
        froms = [each for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)]
        for each in [each for each in froms if str(each.module).startswith("launcher")]:
            names = [f"{each.module}.{alias.name}".replace(".", "/") for alias in each.names]
            module = str(each.module).replace(".", "/")
            assert f"{module}.py" in found or all(f"{name}.py" in found for name in names), (path, module)


def test_it_is_the_same_in_every_process():
    code = "from launcher.schedulers.slurm.program import program; print(program().hex(), end='')"
    assert subprocess.check_output([sys.executable, "-c", code]) == program().hex().encode()


def test_the_packages_above_the_programs_are_empty():
    found = texts()
    for package in ("launcher", "launcher/schedulers", "launcher/schedulers/slurm"):
        assert found[f"{package}/__init__.py"] == ""
