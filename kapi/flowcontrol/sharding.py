"""Shuffle sharding: each flow has a hand of a few queues out of many (upstream: ``util/shufflesharding``).

Two flows rarely share all their queues.  So when one flow fills its queues, another mostly still has a short one.
"""

from __future__ import annotations

import hashlib

from kapi.machinery.memo import cached_function


def flow_hash(schema: str, flow: str) -> int:
    """64 bits that are the same for all requests of a flow; ``flow`` is its distinguisher."""
    data = len(schema).to_bytes(4, "little") + schema.encode() + flow.encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


@cached_function(4096)
def deal(entropy: int, deck: int, hand: int) -> tuple[int, ...]:
    """``hand`` different numbers below ``deck``, determined by ``entropy``."""
    cards: list[int] = []
    for position in range(hand):
        entropy, card = divmod(entropy, deck - position)
        # the card-th of the numbers not yet dealt
        for taken in sorted(cards):
            if card >= taken:
                card += 1
        cards.append(card)
    return tuple(cards)
