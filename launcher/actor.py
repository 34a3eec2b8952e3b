"""The user and host that ledger, locks and cancellations record."""

from __future__ import annotations

import os


def actor() -> str:
    """The user of this process, as `user@host`. A user without a name is a number."""
    import pwd

    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container may run as a user without a passwd entry
        user = str(os.geteuid())
    return f"{user}@{os.uname().nodename}"
