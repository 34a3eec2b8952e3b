"""Diagnostics of job files: the value, its frame, and an explanation of every code."""
