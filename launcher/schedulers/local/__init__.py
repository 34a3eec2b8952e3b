"""The local scheduler: one detached supervisor process per app, no daemon."""
