"""Turns of apps: apps that ask for cores, memory or GPUs share this machine, first come, first served.

`ask` has the request of an app, `line` decides, `table` holds the tickets on disk. Supervisors import these
three, so they import next to nothing. `folders` has the paths of the tables, `machine` counts resources,
`asking` makes the ask of an app.
"""
