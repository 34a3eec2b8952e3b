"""Submission: reserve an app id, create the containers, start all of them or remove everything."""
