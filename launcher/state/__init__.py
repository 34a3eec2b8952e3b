"""Persistent state: the ledger of attempts and their outcomes, and the lock of an apply."""
