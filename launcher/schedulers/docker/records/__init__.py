"""What this machine keeps of Docker apps: the folder of each, its owner, what its containers cannot tell."""
