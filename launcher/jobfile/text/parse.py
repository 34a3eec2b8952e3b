"""Parse text into a document, by its format."""

from __future__ import annotations

from typing import Any

from launcher.jobfile.diagnostics.diagnostic import Diagnostic
from launcher.jobfile.text.document import Document, leaves
from launcher.jobfile.text.foreign_files import foreign_file
from launcher.jobfile.text.source import Format, Source
from launcher.noted import is_noting, not_repeatable
from launcher.specs.secret import hide, may_hold_secret

_UNKEPT = ("component", "secret", "token", "passw", "pwd", "passphrase", "credential", "auth", "key", "\\")
"""Texts with a component or a sensitive name hold one of these; an escape may hide one in a key."""

_LONGEST = 1 << 16
"""The most characters of a text that is tried in the other format too: faulty YAML is parsed slowly."""


def parse(source: Source) -> Document:
    """Parse a job file. Never raises: faults are among the document's problems.

    A file of another tool has no value, and one problem, which names the tool.
    """
    document = parse_values(source)
    found = foreign_file(document) or (_other_format(source) if document.value is None else None)
    return document if found is None else Document(source, None, document.root, [found])


def _other_format(source: Source) -> Diagnostic | None:
    """Return the diagnostic for YAML in a file named as TOML, or the other way round."""
    if len(source.text) > _LONGEST:
        return None
    form: Format = "yaml" if source.format == "toml" else "toml"
    value = parse_values(Source(source.file, form, source.text)).value
    if not value or not {"version", "name", "roles"} & value.keys():
        return None
    stem = source.file.rpartition(".")[0]
    message = f"this is {form.upper()}, and the name of the file says {source.format.upper()}"
    code = "toml-syntax" if source.format == "toml" else "yaml-syntax"
    return source.diagnostic(0, 1, code, message, hint=f"name it `{stem}.{form}`")


def parse_values(source: Source) -> Document:
    """Parse a file of values that is no job file. Never raises, as `parse`."""
    document = _parsed(source)
    if is_noting() and not _may_be_kept(document):
        not_repeatable()
    return document


def _parsed(source: Source) -> Document:
    # Imported by format: a TOML file does not wait for the YAML library.
    if source.format == "toml":
        from launcher.jobfile.text.toml import parse_toml

        return parse_toml(source)
    from launcher.jobfile.text.yaml import parse_yaml

    return parse_yaml(source)


def _without_reference(value: Any) -> Any:
    """The values of a file without the name of the key in `[notify]`: no value of a secret."""
    table = value.get("notify") if isinstance(value, dict) else None
    if not isinstance(table, dict) or not str(table.get("secret")).startswith(("env:", "file:")):
        return value
    return {**value, "notify": {name: each for name, each in table.items() if name != "secret"}}


def _may_be_kept(document: Document) -> bool:
    """Whether results from a document may be cached: it has no component, and no value that may be secret."""
    text = document.source.text.lower()
    if not any(word in text for word in _UNKEPT):
        return True
    value = _without_reference(document.value)
    if value is None or hide(value) != value:
        return False
    return not any(
        "component" in path
        or path[:1] == ("components",)
        or (isinstance(leaf, str) and may_hold_secret(leaf))
        for path, leaf in leaves(value)
    )
