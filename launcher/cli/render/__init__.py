"""Texts that commands print: pure functions from values to text."""
