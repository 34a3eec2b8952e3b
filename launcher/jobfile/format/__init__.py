"""Job files in their canonical form: keys in one order, one kind of quotes, two spaces, every comment kept.

`format_text` is the whole of it: `yaml_nodes` → `yaml_comments` → `yaml_text` for YAML, `toml_text` for TOML,
and `verify` proves that the outcome means what the file meant before anybody sees it.
"""

from __future__ import annotations

from launcher.jobfile.format.format import Unformattable, format_text

__all__ = ["Unformattable", "format_text"]
