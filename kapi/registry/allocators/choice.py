"""What addresses and ports are chosen by: one source for all allocators of a process."""

from __future__ import annotations

import random

RANDOM = random.SystemRandom()
