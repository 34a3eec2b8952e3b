"""Send the outcomes of attempts to URLs and commands."""
