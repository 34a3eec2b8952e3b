"""The weekly page and the table of costs."""
