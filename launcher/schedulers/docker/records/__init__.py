"""Records of Docker apps on this machine: a folder for each, its owner and its journal."""
