"""What we say to a Docker engine, and what it answers. Knows nothing of apps."""
