"""The watcher process of an app, its client, and waiting for the end of an app."""
