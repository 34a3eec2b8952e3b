"""The full-screen view of `launcher top`. Loaded by that command alone: it needs Textual."""
