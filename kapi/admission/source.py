"""Compiles configurations that clients write, for plugins: once after a change, in slices of its own.

Selectors, rules and expressions may be long.  So they are not compiled by the next request, at the cost of its time, nor again by
each request that comes meanwhile.  Upstream's informers read them, and requests see the old ones until then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, cast

from twisted.internet.defer import Deferred, TimeoutError
from twisted.python.failure import Failure

from kapi.admission.initializer import Initializer
from kapi.admission.interface import Attributes
from kapi.admission.manifests import Manifests
from kapi.resources.definition import Lister

GROUP = "admissionregistration.k8s.io"
MAX_CACHED = 10_000  # cached results
# the most seconds that a request waits for new configurations; after that it uses the previous ones
MAX_WAIT_SECONDS = 0.25
Made = TypeVar("Made")
Found = TypeVar("Found")


class Source(Generic[Made]):
    """``make`` reads all that there is now of the resources with these plurals, and of files."""

    def __init__(
        self,
        initializer: Initializer,
        plurals: tuple[str, ...],
        make: Callable[[], Made],
        manifests: Manifests | None = None,
    ) -> None:
        self.manifests = manifests
        self._initializer = initializer
        self._plurals = plurals
        self._make = make
        self._listers: list[Lister | Manifests] = []
        #: the listers that were read, with their changes; empty while the state is not known
        self._current: list[tuple[Lister | Manifests, object]] = []
        self._made: Made | None = None
        self._error: Exception | None = None  # the error of reading
        self._state: object = None  # the compiled configurations
        self._reading: Deferred[None] | None = None
        self._waiting: list[Deferred[None]] = []
        self._found: dict[object, tuple[object, object]] = {}

    def reload(self) -> None:
        """Reads files that have changed."""
        if self.manifests is not None:
            self.manifests.reload()

    def reloaded_files(self) -> Sequence[str]:
        return () if self.manifests is None else (str(self.manifests.directory),)

    def get(self) -> Made | None:
        """The state; None while it is being read: then ``wait``.  Raises the error of reading."""
        for lister, changes in self._current:  # every write runs this loop
            if lister.changes != changes:
                break
        else:
            if self._current:
                return self._made
        return self._look()

    def _look(self) -> Made | None:
        if self._reading is None:
            state = self._changes()
            if state != self._state:
                self._current = []
                reading = self._reading = self._initializer.begin(self._read(state))
                reading.addBoth(self._end, state)
        if self._reading is not None:
            return None
        if self._error is not None:
            raise self._error
        return self._made

    async def wait(self) -> Made:
        """The newest state, or the previous one if reading takes long.  Raises the error of reading."""
        reactor = self._initializer.reactor
        end = 0.0 if reactor is None else reactor.seconds() + MAX_WAIT_SECONDS
        while True:
            found = self.get()
            if found is not None:
                return found
            left = None if self._made is None or reactor is None else end - reactor.seconds()
            if self._made is not None and left is not None and left <= 0:
                return self._made
            waiting: Deferred[None] = Deferred()
            self._waiting.append(waiting)
            if left is not None and reactor is not None:
                waiting.addTimeout(left, reactor)
            try:
                await waiting
            except TimeoutError:
                pass
            finally:
                if waiting in self._waiting:
                    self._waiting.remove(waiting)

    def cached(self, attributes: Attributes, find: Callable[[Made], Found], made: Made) -> Found:
        """The result of ``find`` for requests that rules cannot tell apart; found anew when the configurations have changed."""
        row = attributes.custom_resource  # a definition that changes has new rows, and perhaps other versions
        key = (
            attributes.operation, attributes.resource, attributes.subresource, attributes.kind,
            not attributes.namespace, id(row),
        )  # fmt: skip
        known = self._found.get(key)
        if known is not None and made is self._made:
            return cast(Found, known[1])
        result = find(made)
        if made is self._made:  # otherwise the configurations have changed meanwhile
            if len(self._found) >= MAX_CACHED:
                self._found.clear()
            self._found[key] = row, result  # the row is kept, so that its id is not used again
        return result

    def _changes(self) -> list[object]:
        if not self._listers:
            self._listers = [self._initializer.lister(GROUP, plural) for plural in self._plurals]
            if self.manifests is not None:
                self._listers.append(self.manifests)
        return [lister.changes for lister in self._listers]

    async def _read(self, state: list[object]) -> None:
        made = self._make()
        self._made, self._state, self._error, self._found = made, state, None, {}
        self._current = list(zip(self._listers, state, strict=True))

    def _end(self, result: object, state: object) -> None:
        self._reading = None
        if isinstance(result, Failure):
            if not isinstance(result.value, Exception):
                result.raiseException()
            self._state, self._error = state, result.value
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.callback(None)
