"""What replicas printed, as the engine keeps it."""
