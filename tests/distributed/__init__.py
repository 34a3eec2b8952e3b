"""A real distributed training job, two replicas of PyTorch: too large for the default test run."""
