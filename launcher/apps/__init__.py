"""Programs that our components run in replicas. Standard library only: an image may hold nothing else."""
