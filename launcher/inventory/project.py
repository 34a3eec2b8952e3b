"""The project of the current directory, in which job names are looked up."""

from __future__ import annotations

from launcher.errors import LauncherError


def project_here() -> str:
    """The project of the nearest launcher.toml upwards, within the work tree."""
    import os

    from launcher.files import project_file

    config = project_file(os.getcwd())
    return _project_in(config) if config else "default"


def _project_in(config: str) -> str:
    """`project = "name"` of a launcher.toml. A name is a DNS label, so no TOML parser is needed."""
    try:
        with open(config, encoding="utf-8") as file:
            for line in file:
                name, equals, value = line.partition("=")
                if name.strip().startswith("["):
                    break
                if equals and name.strip().strip("\"'") == "project":
                    return value.partition("#")[0].strip().strip("\"'") or "default"
    except (OSError, UnicodeDecodeError) as error:
        raise LauncherError(f"cannot read {config}: {error}") from error
    return "default"
