"""Format job files canonically: keys in one order, one kind of quotes, two spaces, every comment kept.

`format_text` does all of it: `yaml_nodes` → `yaml_text` for YAML, `toml_text` for TOML, and a proof that the
outcome means the same as the file.
"""

from __future__ import annotations

from launcher.jobfile.format.format import Unformattable, format_text

__all__ = ["Unformattable", "format_text"]
