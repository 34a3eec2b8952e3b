"""Whose turn it is: apps that ask for cores, memory or GPUs share this machine, first come, first served.

`ask` is what an app asks for, `line` decides, `table` holds the tickets on disk, `deal` hands out GPUs.
Supervisors import these four, so they import next to nothing. `folders` says where the tables lie, `machine`
counts what there is, `asking` makes the ask of an app.
"""
