"""Word the problems that pydantic or a check found, placed by field path, with a remedy."""
