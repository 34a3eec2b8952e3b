"""Packages as an installer would write them, such as the one of `examples/plugin-scheduler`."""

import sys
from collections.abc import Mapping
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "plugin-scheduler"


def distribution(site: Path, name: str, group: str, points: Mapping[str, str], version: str = "1.0") -> None:
    """Write the metadata of a package with entry points into a folder, to be put on the path."""
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [f"{point} = {value}" for point, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]))


def install(site: Path) -> None:
    """Install the package of the example: its module and its metadata."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    [(group, points)] = project["entry-points"].items()
    distribution(site, project["name"], group, points, project["version"])
    for module in EXAMPLE.glob("*.py"):
        (site / module.name).write_bytes(module.read_bytes())
