"""Runs apps as containers of a Docker engine."""
