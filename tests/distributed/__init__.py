"""Real distributed training jobs of PyTorch: too large for the default test run."""
