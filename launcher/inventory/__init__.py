"""Find apps by name, list them, read their status and logs, wait for them, record their outcomes."""
