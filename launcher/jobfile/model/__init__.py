"""The language: pydantic models, and one table of fields that is derived from them."""
