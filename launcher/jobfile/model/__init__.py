"""The language: pydantic models, and the one table of fields that is read off them."""
