"""Reproducible uids and generated names, for tests that compare answers with recorded ones.

Upstream: none; its unit tests replace the functions that make them.
"""

from __future__ import annotations

from hashlib import blake2b

from kapi.registry.metadata import ALPHABET, RANDOM_LENGTH

MAX_SEED_LENGTH = 256  # characters
_MAX_KEYS = 100_000  # whose objects are counted


class Identities:
    """A value depends on ``seed``, on the object's key and on how many objects that key has had, not on other writes."""

    def __init__(self, seed: str, *, origin: str = "") -> None:
        """``origin`` distinguishes servers that go on from copied data with the same seed."""
        self.seed = seed
        self._key = blake2b(f"{origin}/{seed}".encode()).digest()
        self._made: dict[str, int] = {}
        self._generation = 0  # how often the counts were cleared

    def uid(self, key: str) -> str:
        """In the form of a random (version 4) UUID; ``key`` is the object's in the store."""
        text = self._digest("uid", key).hex()
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{'89ab'[int(text[16], 16) & 3]}{text[17:20]}-{text[20:32]}"

    def suffix(self, key: str) -> str:
        """The suffix of a generated name; ``key`` is the store's key with the generateName in place of the name."""
        return "".join(ALPHABET[byte % len(ALPHABET)] for byte in self._digest("name", key)[:RANDOM_LENGTH])

    def _digest(self, kind: str, key: str) -> bytes:
        if len(self._made) >= _MAX_KEYS:
            self._made.clear()
            self._generation += 1
        place = f"{kind} {key}"
        made = self._made[place] = self._made.get(place, 0) + 1
        return blake2b(f"{place} {made} {self._generation}".encode(), digest_size=16, key=self._key).digest()
