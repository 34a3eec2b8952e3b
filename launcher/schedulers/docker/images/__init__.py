"""The images of an app: pull them, build them from a workspace, tag and push them."""
