"""The logs of replicas, read from the engine."""
