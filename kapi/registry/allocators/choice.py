"""The source of randomness of all allocators."""

from __future__ import annotations

import random

RANDOM = random.SystemRandom()
