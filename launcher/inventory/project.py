"""Names that job files declare, read fast: the projects in which job names are looked up, and matrices."""

from __future__ import annotations

from launcher.errors import LauncherError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

JOB_FILES = (".launcher.yaml", ".launcher.yml", ".launcher.toml")
MOST_BYTES = 1 << 20  # bytes at the start of a job file that are searched for a name


def projects_here() -> Iterator[str]:
    """`project_here`, then the other projects that job files in the current directory declare."""
    here = project_here()
    yield here
    yield from sorted({*declared_here().values()} - {here, ""})


def declared_here() -> dict[str, str]:
    """Return the file name of each job file in the current directory → its `project`; "" for none."""
    import os

    from launcher.files import read_regular

    found = {}
    for name in os.listdir():
        if name.endswith(JOB_FILES):
            try:
                lines = read_regular(name, MOST_BYTES).decode("utf-8-sig", "replace").splitlines()
            except (OSError, ValueError):
                continue
            found[name] = top_value(lines, "project", is_toml=name.endswith(".toml"))
    return found


def project_here() -> str:
    """The project of the nearest launcher.toml upwards, within the work tree."""
    import os

    from launcher.files import project_file

    config = project_file(os.getcwd())
    if not config:
        return "default"
    try:
        with open(config, encoding="utf-8") as file:
            return top_value(file, "project", is_toml=True) or "default"
    except (OSError, UnicodeDecodeError) as error:
        raise LauncherError(f"cannot read {config}: {error}") from error


def job_file(origin: str, path: str) -> str:
    """Return the path here of the job file of an attempt. `origin`, `path`: see `Attempt`.

    Raises LauncherError where its checkout is unknown, or no longer has the file.
    """
    import os

    from launcher.git import repository

    root = origin if os.path.isabs(origin) else ""
    tree = repository(os.getcwd()) if origin and not root else None
    if tree is not None and tree.origin == origin:
        root = tree.root
    if not root:
        raise LauncherError(
            f"{path} was applied from {origin or 'another place'}, and this folder is no checkout of it",
            hint="change to a checkout of it first",
        )
    found = os.path.join(root, path)
    if not os.path.isfile(found):
        raise LauncherError(f"{found} is not there any more")
    return found


def top_value(lines: Iterable[str], key: str, *, is_toml: bool) -> str:
    """The value of a key at the top of a TOML or YAML file; "" without one.

    Scans lines, since parsing is slow; correct for names, which are DNS labels.
    """
    for line in lines:
        if is_toml and line.lstrip().startswith("["):
            break  # a table
        name, found, value = line.partition("=" if is_toml else ":")
        is_top = is_toml or not line[:1].isspace()
        if found and is_top and name.strip().strip("\"'") == key:
            return value.partition("#")[0].strip().strip("\"'")
    return ""


def matrix_of(job: str, declared: tuple[str, str] | None) -> str:
    """Return the name of the matrix that a job belongs to; "" for a job outside of a matrix.

    Args:
        declared: as `declared` returns it for the file of the job.
    """
    name, beginning = declared or ("", "")
    return name if job != name and job.startswith(beginning) else ""


def file_of(origin: str, path: str) -> str:
    """Return the absolute path of a job file from its origin and path; "" if it leads out of its root."""
    import os

    from launcher.files import is_below, is_top, upwards

    root = origin
    if not os.path.isabs(origin):  # the nearest folder upwards that contains `.git`, else the current one
        here = os.getcwd()
        *_, top = upwards(here)
        root = top if is_top(top) else here
    file = os.path.realpath(os.path.join(root, path))
    return file if is_below(file, os.path.realpath(root)) else ""


def declared(origin: str, path: str) -> tuple[str, str] | None:
    """Return the name of a file's matrix, and the beginning of its jobs' names; None without the file."""
    from launcher.files import read_regular

    try:
        if file := file_of(origin, path):
            text = read_regular(file, MOST_BYTES).decode("utf-8-sig", "replace")
            name = top_value(text.splitlines(), "name", is_toml=path.endswith(".toml"))
            beginning, is_pattern, _ = name.partition("$<")
            if name:
                return (_group(text, path), beginning) if is_pattern else (name, f"{name}-")
    except (OSError, ValueError):
        pass
    return None


def _group(text: str, path: str) -> str:
    """Return the `matrix.group` of a job file. The file is parsed, as few matrices are named there."""
    from launcher.jobfile.text.document import Source
    from launcher.jobfile.text.parse import parse

    document = parse(Source(path, "toml" if path.endswith(".toml") else "yaml", text))
    matrix = (document.value or {}).get("matrix")
    group = matrix.get("group") if isinstance(matrix, dict) else None
    return group if isinstance(group, str) else ""
