"""The system's limits on this process."""

from __future__ import annotations

_OTHERS = 64  # descriptors that this process opens for other purposes


def allow_open_files(count: int) -> bool:
    """Make room for `count` files open at once; False when the hard limit forbids it.

    The soft limit is often 1024 for programs that use select(), which launcher does not.
    """
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + _OTHERS
    if soft == resource.RLIM_INFINITY or wanted <= soft:
        return True
    if hard != resource.RLIM_INFINITY and wanted > hard:
        return False
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # macOS has an additional limit
        return False
    return True
