"""What the server asks of Twisted's reactor for a request: time and threads.

Only a type: the reactor is given to the server when it starts, and a test gives it a clock.
"""

from __future__ import annotations

from twisted.internet.interfaces import IReactorThreads, IReactorTime


class RequestReactor(IReactorTime, IReactorThreads):
    """Time by a monotonic clock, and a pool of threads for what would hold up the others."""
