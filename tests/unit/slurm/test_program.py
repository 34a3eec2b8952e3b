"""The zip that runs on the nodes."""

import ast
import io
import subprocess
import sys
import zipfile

from launcher.schedulers.slurm.cluster import program


def texts() -> dict[str, str]:
    """Return the text of each module by path."""
    with zipfile.ZipFile(io.BytesIO(program())) as file:
        return {name: file.read(name).decode() for name in file.namelist()}


def imported(text: str, path: str) -> set[str]:
    """Return the modules that a module imports, each with its names: `json`, `launcher.holding.app.App`."""
    tree = ast.parse(text, path, feature_version=(3, 6))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return names | {f"{node.module}.{alias.name}" for node in froms for alias in node.names}


def test_the_zip_holds_every_module_that_it_imports_but_the_standard_library():
    found = texts()
    for path, text in found.items():
        for name in imported(text, path):
            if name.partition(".")[0] != "launcher":
                assert name.partition(".")[0] in sys.stdlib_module_names, path
            else:
                module = name.replace(".", "/")
                assert f"{module}.py" in found or f"{module.rpartition('/')[0]}.py" in found, (path, name)


def test_the_zip_is_the_same_in_every_process():
    code = "from launcher.schedulers.slurm.cluster import program; print(program().hex(), end='')"
    assert subprocess.check_output([sys.executable, "-c", code]) == program().hex().encode()


def test_the_packages_above_the_programs_are_empty():
    found = texts()
    for package in ("launcher", "launcher/schedulers", "launcher/schedulers/slurm"):
        assert found[f"{package}/__init__.py"] == ""
