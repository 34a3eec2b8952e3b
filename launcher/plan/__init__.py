"""Plan what an apply does. Pure: no clock, randomness, file, process or network.

`snapshot.merge` joins the ledger and the engines into one snapshot, `reconcile.reconcile` makes a
`model.Plan` from it, `codec` saves and loads plans, and `recheck.recheck` compares a saved plan with a later
snapshot.
"""
