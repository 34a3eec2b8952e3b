"""The chain from a pull request to what became of it, as steps of a CI workflow."""
