"""Benchmarks: every figure is a ratio to a floor, the least work that does the job, in one interleaved run.

    python -m tests.benchmarks                 all of them, a few minutes
    python -m tests.benchmarks start logs      some of them
    python -m tests.benchmarks --peers         also what one would use instead; installs it below build/peers

The floors stand beside what they are compared with, a few lines each.
"""
