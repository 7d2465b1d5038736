"""Uids and generated names that come out the same each time: for tests that compare what they got with what they wrote down.

Upstream: none; its unit tests replace the functions that make them.
"""

from __future__ import annotations

from hashlib import blake2b

from kapi.registry.metadata import ALPHABET, RANDOM_LENGTH

MAX_SEED = 256  # characters
MAX_COUNTED = 100_000  # keys


class Identities:
    """By ``seed``, by where an object is, and by how often one was made there: other writers change nothing in it."""

    def __init__(self, seed: str, *, origin: str = "") -> None:
        """``origin``: what there is already was made elsewhere, by the same seed maybe."""
        self.seed = seed
        self._key = blake2b(f"{origin}/{seed}".encode()).digest()
        self._made: dict[str, int] = {}
        self._forgotten = 0  # how often what was counted was too much

    def uid(self, key: str) -> str:
        """In the form of a random (version 4) UUID; ``key`` is the object's in the store."""
        text = self._digest("uid", key).hex()
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{'89ab'[int(text[16], 16) & 3]}{text[17:20]}-{text[20:32]}"

    def suffix(self, key: str) -> str:
        """What makes a name of a generateName; ``key`` is that of an object whose name it is."""
        return "".join(ALPHABET[byte % len(ALPHABET)] for byte in self._digest("name", key)[:RANDOM_LENGTH])

    def _digest(self, kind: str, key: str) -> bytes:
        if len(self._made) >= MAX_COUNTED:
            self._made.clear()
            self._forgotten += 1
        place = f"{kind} {key}"
        made = self._made[place] = self._made.get(place, 0) + 1
        return blake2b(f"{place} {made} {self._forgotten}".encode(), digest_size=16, key=self._key).digest()
