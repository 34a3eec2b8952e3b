"""Slurm: one job of the cluster, or one task of an array, for an app, one step of it for each role."""
