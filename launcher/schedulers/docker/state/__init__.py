"""The state of apps, derived from their containers, their labels and their records here."""
