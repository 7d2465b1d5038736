"""Shuffle sharding: each flow has a hand of a few queues out of many (upstream: ``util/shufflesharding``).

Two flows rarely share all their queues, so one that floods its own leaves others a way around.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache


def flow_hash(schema: str, flow: str) -> int:
    """64 bits that are the same for all requests of a flow."""
    data = len(schema).to_bytes(4, "little") + schema.encode() + flow.encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


@lru_cache(4096)
def deal(entropy: int, deck: int, hand: int) -> tuple[int, ...]:
    """``hand`` different numbers below ``deck``."""
    cards: list[int] = []
    for position in range(hand):
        entropy, card = divmod(entropy, deck - position)
        # the card-th of those that are still in the deck
        for taken in sorted(cards):
            if card >= taken:
                card += 1
        cards.append(card)
    return tuple(cards)
