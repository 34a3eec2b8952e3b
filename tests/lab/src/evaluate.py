"""Accuracy, robustness, latency and drift."""
