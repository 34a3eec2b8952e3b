"""Programs that run on the cluster: Python 3.6 and its standard library alone."""
