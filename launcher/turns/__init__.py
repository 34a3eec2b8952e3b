"""Turns of apps: apps that ask for cores, memory or GPUs share this machine, first come, first served.

`line` has requests, tickets and the decision, `table` holds the tickets on disk. Supervisors import both, so
they import next to nothing. `machine` counts resources, makes the request of an app, and has the paths of the
tables.
"""
