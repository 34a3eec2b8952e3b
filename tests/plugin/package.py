"""The package of `examples/plugin-scheduler`, as an installer would write it."""

import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "plugin-scheduler"


def install(site: Path) -> None:
    """Write its module and its metadata into a folder, to be put on the path."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    for module in EXAMPLE.glob("*.py"):
        (site / module.name).write_bytes(module.read_bytes())
