"""What is wrong with a job file: the value, its frame, and an explanation of every code."""
