"""Problems in words: what pydantic or a check found, placed by field path, with a remedy."""
