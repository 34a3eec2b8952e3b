"""Compiles that are kept: what they stand on, and what they come to as plain data."""
