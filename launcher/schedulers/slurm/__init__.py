"""Slurm: one job of the cluster for an app, one step of it for each role."""
