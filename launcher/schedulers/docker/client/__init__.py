"""The client of the Docker engine's API. It has no notion of apps."""
