"""Throughput of the loader and of training."""
