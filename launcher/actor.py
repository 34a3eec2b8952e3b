"""Who is at work: what ledger, locks and cancellations remember of it."""

from __future__ import annotations

import os


def actor() -> str:
    """We, as `user@host`. A user without a name is a number."""
    import pwd

    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container may run as a user that nobody has heard of
        user = str(os.geteuid())
    return f"{user}@{os.uname().nodename}"
