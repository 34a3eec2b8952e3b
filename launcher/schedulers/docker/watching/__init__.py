"""Looking after an app until its end, and noticing that end."""
