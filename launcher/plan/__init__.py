"""Deciding what an apply does. Pure: no clock, randomness, file, process or network.

`snapshot.merge` makes one view of the world, `reconcile.reconcile` a plan of it, `model.Plan` is that plan,
`codec` saves and loads it, `recheck.recheck` holds a saved one against the world of a later day.
"""
