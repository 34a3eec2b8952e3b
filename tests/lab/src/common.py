"""Reads and writes of shards, for all modules."""
