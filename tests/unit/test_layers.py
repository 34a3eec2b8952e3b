"""Imports point down, siblings do not know each other, no circles. Imports inside functions count."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "launcher").rglob("*.py"))

LAYERS = (
    "dataclass errors paths command cachefolder ci_environment files git hashes database indented looks"
    " outages secrets filelock text unpacking holding",
    "specs apps",  # apps are programs of their own, of the standard library alone
    "turns state", "components schedulers plan workspace", "jobfile runner", "convert apply", "inventory",
    "ci notify", "cli", "__main__",
)  # fmt: skip
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names.split()}
JOBFILE_ROOMS = {"diagnostic": 0, "text": 1, "model": 2, "messages": 3}
JOBFILE_ROOMS |= {"compile": 4, "schema": 4, "format": 4}
FACES = {
    "launcher",  # above everything: it names the public things of all layers
    "launcher.specs.api",  # import paths that users know; nothing of ours imports them
    "launcher.specs.builders", "launcher.specs.finder", "launcher.specs.file_linter",
    "launcher.components.component_test_base", "launcher.schedulers.docker_scheduler",
    "launcher.schedulers.local_scheduler", "launcher.workspace.docker_workspace",
}  # fmt: skip
BELOW_SCHEDULERS = {("schedulers", "workspace")}  # a scheduler may build from a workspace

DOING_IO = {
    "subprocess", "sqlite3", "_sqlite3", "socket", "shutil", "tempfile", "pathlib", "ruamel", "tomli",
    "docker",
}  # fmt: skip
FORBIDDEN = {
    "specs": DOING_IO | {"pydantic", "rich", "jsonschema"},
    "plan": {"sqlite3", "_sqlite3", "subprocess", "docker", "time", "random"},
    "runner": {"launcher.jobfile", "launcher.plan", "launcher.state"},
    "jobfile": {"launcher.runner", "launcher.schedulers"},
    "state": {"launcher.schedulers", "launcher.plan"},
    "components": {"launcher.schedulers", "launcher.runner"},
    "apps": {"launcher"},
    "holding": DOING_IO | {"json", "re", "enum", "dataclasses"},
}
ABOVE_SCHEDULERS = {"cli", "ci", "inventory", "apply", "runner", "jobfile"}
ENGINES = sorted(path.parent.name for path in ROOT.glob("launcher/schedulers/*/__init__.py"))
NAMES = {"local_cwd", "local_dir", "local_docker", "slurm"}
WRITTEN_FOR_USERS = {
    "HELP",
    "EXAMPLES",
    "USAGE",
    "description",
    "examples",
    "help",
    "hint",
    "ENGINES",
}  # the choices of an option
SHARED_BY_ENGINES = {
    f"launcher.schedulers.{name}" for name in ("api", "backend", "record", "staged", "workspaces")
}
SHARED_BY_ENGINES |= {
    "launcher.schedulers.readback", "launcher.schedulers.restarts", "launcher.schedulers.registry",
    "launcher.schedulers.replica_request",
}  # fmt: skip
SHARED_BY_ENGINES |= {"launcher.schedulers.responses", "launcher.schedulers.logs", "launcher.schedulers.ids"}
SHARED_BY_ENGINES |= {f"launcher.schedulers.{name}" for name in ("appfolder", "registry")}
SHARED_BY_ENGINES |= {
    f"launcher.schedulers.{name}"
    for name in ("checks", "contents", "devices", "ended_process", "folder", "holder", "leftovers")
}
SHARED_BY_ENGINES |= {
    f"launcher.schedulers.{name}"
    for name in (
        "loop", "many", "messages", "owner", "packing", "pids", "probes", "programs", "replica_request",
    )
}  # fmt: skip


def module_of(path: Path) -> str:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return name.removesuffix(".__init__")


@cache
def modules() -> dict[str, ast.Module]:
    """Module → its syntax tree, of the whole package."""
    return {module_of(path): ast.parse(path.read_bytes(), str(path)) for path in FILES}


def imports(module: str) -> Iterator[str]:
    """Return all imports of a module: a submodule by its name, else the module imported from."""
    for node in ast.walk(modules()[module]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} line {node.lineno}: relative import"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in modules() else node.module or ""


def package_of(module: str) -> str:
    """Return the package of a module: `plan` for `launcher.plan.diff`."""
    return module.split(".")[1] if "." in module else ""


@cache
def edges() -> list[tuple[str, str]]:
    """(importer, imported), of every import of the package except in FACES."""
    return sorted(
        (module, target) for module in modules() if module not in FACES for target in set(imports(module))
    )


def ours() -> list[tuple[str, str]]:
    """Return the edges between two modules of the package."""
    return [(a, b) for a, b in edges() if b in modules() and b != "launcher"]


def test_every_package_has_a_rank():
    assert {package_of(module) for module in modules()} - RANK.keys() == {""}


def test_modules_for_users_are_imported_by_no_module_of_ours():
    named_by = {(a, b) for a, b in ours() if b in FACES}
    assert named_by == {("launcher.specs", "launcher.specs.builders")}  # for type checkers only


def test_imports_point_down():
    crossing = [(a, b) for a, b in ours() if package_of(a) != package_of(b)]
    allowed = [(a, b) for a, b in crossing if (package_of(a), package_of(b)) in BELOW_SCHEDULERS]
    upward = [
        (a, b) for a, b in crossing if RANK[package_of(a)] <= RANK[package_of(b)] and RANK[package_of(b)]
    ]
    assert sorted(set(upward) - set(allowed)) == []


def test_packages_do_not_import_modules_that_are_forbidden_to_them():
    broken = [
        (a, b)
        for a, b in edges()
        for name in FORBIDDEN.get(package_of(a), ())
        if b == name or b.startswith(name + ".")
    ]
    assert broken == [("launcher.holding.journal", "json.decoder")]  # where CPython's scanner is missing


def test_the_subpackages_of_jobfile_import_downwards():
    inside = [(room_of(a), room_of(b)) for a, b in ours() if room_of(a) and room_of(b)]
    assert {room for pair in inside for room in pair} <= JOBFILE_ROOMS.keys()
    upward = {(a, b) for a, b in inside if a != b and JOBFILE_ROOMS[a] <= JOBFILE_ROOMS[b]}
    assert sorted(upward) == []


def room_of(module: str) -> str:
    """Return the subpackage of a module: `text` for `launcher.jobfile.text.yaml`."""
    parts = module.split(".")
    return parts[2] if len(parts) > 2 and parts[1] == "jobfile" else ""


def test_no_module_above_the_schedulers_imports_from_inside_one():
    inside = tuple(f"launcher.schedulers.{engine}" for engine in ENGINES)
    assert [(a, b) for a, b in ours() if package_of(a) in ABOVE_SCHEDULERS and b.startswith(inside)] == []


def test_the_converter_of_scripts_takes_the_table_of_their_options_alone():
    inside = tuple(f"launcher.schedulers.{engine}" for engine in ENGINES)
    taken = {b for a, b in ours() if package_of(a) == "convert" and b.startswith(inside)}
    assert taken == {"launcher.schedulers.slurm.options"}


def test_no_module_above_the_schedulers_names_one():
    """Help texts, examples, and words of other tools with a field of one scheduler are excepted.

    The name of the default is in `launcher.schedulers.registry`.
    """
    named = [
        f"{module} line {node.lineno}"
        for module, tree in modules().items()
        if package_of(module) in ABOVE_SCHEDULERS
        and not module.startswith("launcher.jobfile.messages.foreign")
        for node in code_of(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in NAMES
    ]
    assert named == []


def code_of(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a tree without texts for users."""
    for child in ast.iter_child_nodes(node):
        targets = getattr(child, "targets", ())
        names = {getattr(target, "id", "") for target in targets} | {getattr(child, "arg", "")}
        if not names & WRITTEN_FOR_USERS:
            yield child
            yield from code_of(child)


def test_specs_open_no_file():
    calls = [
        f"{module} line {node.lineno}"
        for module, tree in modules().items()
        if package_of(module) == "specs"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"open", "print", "input"}
    ]
    assert calls == []


def test_engines_share_only_modules_that_are_for_all_of_them():
    inside = [
        (a, b, a.split(".")[2])
        for a, b in ours()
        if a.startswith("launcher.schedulers.") and a.count(".") > 2
    ]
    outside = [(a, b) for a, b, engine in inside if not b.startswith(f"launcher.schedulers.{engine}")]
    assert [(a, b) for a, b in outside if package_of(b) == "schedulers" and b not in SHARED_BY_ENGINES] == []


def test_modules_import_names_from_the_modules_that_define_them():
    """The packages hand names on to users; in our modules an import says where to look."""
    packages = [import_module(module_of(path)) for path in FILES if path.name == "__init__.py"]
    handed_on = {
        each.__name__: {*each.__all__} - {"__version__"} for each in packages if hasattr(each, "__getattr__")
    }
    found = [
        f"{module} line {node.lineno}: {name.name}"
        for module, tree in modules().items()
        if module not in FACES
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if name.name in handed_on.get(node.module or "", ())
    ]
    assert found == []


def test_no_import_goes_in_circles():
    graph: dict[str, set[str]] = {module: set() for module in modules()}
    for a, b in ours():
        graph[a].add(b)
    TopologicalSorter(graph).prepare()  # CycleError shows the circle
