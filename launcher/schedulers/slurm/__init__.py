"""Slurm: an app is one job of the cluster, or one task of an array, with a step for each role."""
