"""Text → document, by its format."""

from __future__ import annotations

from launcher.jobfile.text.document import Document
from launcher.jobfile.text.foreign_files import foreign_file
from launcher.jobfile.text.source import Source


def parse(source: Source) -> Document:
    """Parse a file. Never raises: what is wrong is among the document's problems.

    A file of another tool has no value, and one problem, which names the tool.
    """
    document = _parsed(source)
    foreign = foreign_file(document)
    return document if foreign is None else Document(source, None, document.root, [foreign])


def _parsed(source: Source) -> Document:
    # Imported by format: a TOML file does not wait for the YAML library.
    if source.format == "toml":
        from launcher.jobfile.text.toml import parse_toml

        return parse_toml(source)
    from launcher.jobfile.text.yaml import parse_yaml

    return parse_yaml(source)
