"""Plan what an apply does. Pure: no clock, randomness, file, process or network."""
