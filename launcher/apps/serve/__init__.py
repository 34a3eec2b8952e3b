"""Programs that put models into service."""
