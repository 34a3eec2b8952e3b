"""The steps of a CI workflow: plan a pull request, apply its merge, report how its jobs ended."""
