"""The apps there are: find one by a word, list them, tell how they do, wait for their ends."""
