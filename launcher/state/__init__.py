"""What outlives an apply: the ledger of attempts and their outcomes, and the lock around an apply."""
