"""The images of an app at the engine: pulled, built from a workspace, tagged, pushed."""
