"""The cache of compiles: the questions that an outcome depends on, and the outcome as plain data."""
