"""Fetching, decoding, deduplication and splits."""
