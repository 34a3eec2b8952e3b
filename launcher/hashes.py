"""The hash functions of the standard library for short data, without `hashlib`, which loads OpenSSL.

To load OpenSSL takes a fifth of the start of a bare interpreter. OpenSSL is faster for files, so these are
hashed with `hashlib`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import blake2b as blake2b, sha256 as sha256
else:
    from _blake2 import blake2b as blake2b

    try:
        from _sha2 import sha256 as sha256
    except ImportError:
        try:
            from _sha256 import sha256 as sha256  # before Python 3.12
        except ImportError:  # an interpreter that leaves SHA-256 to OpenSSL
            from hashlib import sha256 as sha256
