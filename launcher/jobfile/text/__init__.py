"""Read YAML and TOML text into plain values, each with its position in the file."""
