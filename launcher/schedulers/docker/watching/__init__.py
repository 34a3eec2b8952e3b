"""The watcher process of apps, and its client, which also waits for the end of an app."""
