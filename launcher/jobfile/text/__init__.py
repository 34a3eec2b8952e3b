"""Text to values: YAML and TOML read into plain values, each with its position in the file."""
