"""What the clients did and what they were told: the input of the checks.

Times are seconds of one monotonic clock, revisions are the store's.  A key is what the store calls an object:
``group/resource/namespace/name``, with ``core`` for the core group; a prefix is the beginning of one.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import quote

REFUSED = frozenset({400, 403, 404, 405, 409, 410, 422, 429, 503})  # nothing was written, unless it says otherwise


class Selector(NamedTuple):
    """What a list or watch selects by: a label, a selectable field of the custom resource, a name; "" is not at all."""

    label: str = ""
    field: str = ""
    name: str = ""

    def matches(self, label: str, field: str, name: str) -> bool:
        return (
            (not self.label or self.label == label)
            and (not self.field or self.field == field)
            and (not self.name or self.name == name)
        )

    @property
    def query(self) -> str:
        """As parameters of a URL, each after an ampersand."""
        fields = [f"spec.color={self.field}"] if self.field else []
        fields += [f"metadata.name={self.name}"] if self.name else []
        text = f"&labelSelector={quote(f'color={self.label}')}" if self.label else ""
        return text + (f"&fieldSelector={quote(','.join(fields))}" if fields else "")


@dataclass(slots=True)
class Write:
    """``value`` is in no other write.  ``expected`` is the revision it is to replace, None whichever there is.

    Of a deletion of a collection ``key`` is the prefix and ``uids`` are those of the objects it answered.
    """

    verb: str  # create, update, patch, apply, delete, deletecollection
    key: str
    value: str
    expected: int | None
    server: int
    start: float
    end: float = math.inf
    status: int = 0  # 0: no answer
    reason: str = ""  # of a refusal
    revision: int = 0  # as answered; 0 for deletions
    uids: tuple[str, ...] = ()  # as answered by deletions
    undecided: bool = False  # the answer says that the outcome is unknown

    @property
    def done(self) -> bool:
        return self.status in (200, 201, 202)

    @property
    def refused(self) -> bool:
        """Whether the answer says that nothing was written."""
        return self.status in REFUSED and not self.undecided


@dataclass(slots=True)
class Read:
    """A consistent get, answered with 200 or 404."""

    key: str
    server: int
    start: float
    end: float
    status: int
    revision: int = 0
    value: str = ""


class Item(NamedTuple):
    """An object in a list, or in an event."""

    namespace: str
    name: str
    revision: int
    value: str


@dataclass(slots=True)
class Listing:
    """A whole list; ``revisions`` are those of its pages.  ``wanted`` is the revision that was asked for."""

    prefix: str
    selector: Selector
    mode: str  # fresh, any, exact, atleast
    wanted: int
    server: int
    start: float
    end: float
    revisions: tuple[int, ...]
    items: list[Item]


class Event(NamedTuple):
    """``type`` as on the wire; INITIAL is the bookmark at the end of the initial events."""

    type: str
    item: Item


@dataclass(slots=True)
class Stream:
    """One watch.  ``since`` is the revision it began after; None: with initial events."""

    prefix: str
    selector: Selector
    since: int | None
    server: int
    start: float
    wanted: int = 0  # the least revision of the initial events
    events: list[Event] = field(default_factory=list)
    end: float = math.inf  # when it ended; inf while it runs

    @property
    def last(self) -> int:
        """The revision to go on from; 0 when there is none."""
        return self.events[-1].item.revision if self.events else self.since or 0


class Gone(NamedTuple):
    """A 410: ``wanted`` is the revision that was asked for."""

    what: str
    server: int
    wanted: int
    end: float


class Journal:
    """What everybody was told."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.reads: list[Read] = []
        self.listings: list[Listing] = []
        self.streams: list[Stream] = []
        self.gone: list[Gone] = []
        self.observed: list[tuple[float, int]] = []  # when somebody was told of which revision
        self.complaints: list[str] = []  # answers that must not be, whatever the history
        self.errors: list[str] = []  # every answer of 500: request and body, also of those that are allowed
        self.operations: Counter[str] = Counter()  # requests by verb
        self.statuses: Counter[int] = Counter()
        self.watch_events = 0
        self.replaced: list[str] = []  # answers that only a primary explains that was replaced
        #: by server: the start of the newest acknowledged write
        self.newest_write: dict[int, float] = {}

    def observe(self, moment: float, revision: int) -> None:
        self.observed.append((moment, revision))
