"""RSA keys of tests, made when they are first needed.

Finding two large primes takes a tenth of a second, and each run imports all tests.
"""

from __future__ import annotations

import functools

from cryptography.hazmat.primitives.asymmetric import rsa


@functools.cache
def rsa_key(name: str) -> rsa.RSAPrivateKey:
    """The one of that name in this process."""
    return rsa.generate_private_key(65537, 2048)
