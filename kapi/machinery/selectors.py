"""Label and field selectors (upstream: apimachinery ``labels/selector.go`` and ``fields/selector.go``).

Parsing returns immutable objects with ``matches``.  A Predicate is a label and a field selector, as lists and watches have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from operator import attrgetter
from typing import NamedTuple

from kapi.machinery.checkpoint import checkpoint
from kapi.machinery.each import elements, entries
from kapi.machinery.field import FieldError, invalid
from kapi.machinery.golang import aggregate, quote
from kapi.machinery.label_requirements import LabelRequirement, PackedRequirements, is_int
from kapi.machinery.names import checked_label_value, label_value, qualified_name
from kapi.machinery.sharding import Shards
from kapi.machinery.sorting import ordered
from kapi.machinery.text_set import MAX_PACKED, MAX_UNPACKED, text_set
from kapi.machinery.tree import Object, Tree


class SelectorError(ValueError):
    """A malformed selector; the client gets the text."""


class LabelSelector:
    """A conjunction of requirements; the empty one selects everything."""

    __slots__ = ("requirements",)

    def __init__(self, requirements: Sequence[LabelRequirement] = ()) -> None:
        many = MAX_UNPACKED < len(requirements) <= MAX_PACKED
        self.requirements: Sequence[LabelRequirement] = (
            PackedRequirements(requirements) if many else tuple(requirements)
        )

    @property
    def empty(self) -> bool:
        return not self.requirements

    def matches(self, labels: Mapping[str, str]) -> bool:
        requirements = self.requirements
        if type(requirements) is PackedRequirements:  # faster than ``isinstance`` of an abstract base class
            return requirements.matches(labels)
        terms = requirements if len(requirements) <= MAX_UNPACKED else elements(requirements)
        return all(term.matches(labels) for term in terms)


EVERYTHING = LabelSelector()
_TOKEN = re.compile(r"==|!=|=|>|<|!|\(|\)|,|[^\s=!><(),]+")


def _tokens(text: str) -> list[str]:
    found: list[str] = _TOKEN.findall(text)
    return found


_PUNCTUATION = {"==", "!=", "=", ">", "<", "!", "(", ")", ","}
_KEYWORDS = {"in", "notin"}
_KEY = attrgetter("key")


class _Parser:
    """Recursive descent over the tokens; errors name what was found and what was expected."""

    def __init__(self, text: str) -> None:
        self.tokens = _tokens(text)
        self.position = 0

    def peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.position += 1
        return token

    @staticmethod
    def is_identifier(token: str) -> bool:
        return bool(token) and token not in _PUNCTUATION

    def parse(self) -> list[LabelRequirement]:
        requirements: list[LabelRequirement] = []
        while True:
            checkpoint()
            token = self.peek()
            if not token:
                return requirements
            if not (self.is_identifier(token) or token == "!"):
                raise SelectorError(f"found '{token}', expected: !, identifier, or 'end of string'")
            try:
                requirements.append(self.requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            token = self.take()
            if not token:
                return requirements
            if token != ",":
                raise SelectorError(f"found '{token}', expected: ',' or 'end of string'")
            following = self.peek()
            if not (self.is_identifier(following) or following == "!"):
                raise SelectorError(f"found '{following}', expected: identifier after ','")

    def requirement(self) -> LabelRequirement:
        negated = self.peek() == "!"
        if negated:
            self.take()
        key = self.take()
        if not self.is_identifier(key):
            raise SelectorError(f"found '{key}', expected: identifier")
        _check_key(key)
        following = self.peek()
        if negated or following in ("", ","):
            return LabelRequirement(key, "!" if negated else "exists", frozenset())
        operator = self.take()
        if operator in _KEYWORDS:
            values = self.value_list()
        elif operator in ("=", "==", "!="):
            values = frozenset([self.exact_value()])
        elif operator in (">", "<"):
            values = frozenset([self.exact_value()])
            operator = "gt" if operator == ">" else "lt"
        else:
            raise SelectorError(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
        return label_requirement(key, operator, values)

    def exact_value(self) -> str:
        token = self.peek()
        if token in ("", ","):
            return ""
        self.take()
        if not self.is_identifier(token):
            raise SelectorError(f"found '{token}', expected: identifier")
        return token

    def value_list(self) -> Set[str]:
        opening = self.take()
        if opening != "(":
            raise SelectorError(f"found '{opening}' expected: '('")
        token = self.peek()
        if token == ")":
            self.take()
            return frozenset([""])
        if not (self.is_identifier(token) or token == ","):
            raise SelectorError(f"found '{token}', expected: ',', ')' or identifier")
        values: set[str] = set()
        while True:
            checkpoint()
            token = self.take()
            if self.is_identifier(token):
                values.add(token)
                separator = self.peek()
                if separator == ",":
                    continue
                if separator == ")":
                    self.take()
                    return text_set(values)
                raise SelectorError(f"found '{separator}', expected: ',' or ')'")
            if token == ",":
                if not values:
                    values.add("")
                following = self.peek()
                if following == ")":
                    self.take()
                    values.add("")
                    return text_set(values)
                if following == ",":
                    values.add("")
                continue
            raise SelectorError(f"found '{token}', expected: ',', or identifier")


def _joined_errors(*errors: FieldError) -> SelectorError:
    """The errors as one; each text appears once."""
    for error in errors:
        error.field = error.field or "<nil>"
    return SelectorError(aggregate(map(str, errors)))


def _check_key(key: str) -> None:
    problems = qualified_name(key)
    if problems:
        raise _joined_errors(invalid("", key, "; ".join(problems)))


def label_requirement(key: str, operator: str, values: Set[str]) -> LabelRequirement:
    """A checked requirement.  Raises SelectorError."""
    errors: list[FieldError] = []
    if operator in ("gt", "lt"):
        for value in elements(values):
            if not is_int(value):
                errors.append(invalid("values[0]", value, "for 'Gt', 'Lt' operators, the value must be an integer"))
    check = label_value if len(values) <= MAX_UNPACKED else checked_label_value
    if any(check(value) for value in elements(values)):  # sorted only when there are errors, whose order counts
        for index, value in enumerate(elements(sorted(values))):
            problems = check(value)
            if problems:
                errors.append(invalid(f"values[{index}][{key}]", value, "; ".join(problems)))
    if errors:
        raise _joined_errors(*errors)
    return LabelRequirement(key, operator, values)


def parse_labels(text: str) -> LabelSelector:
    """``a=b,c in (d,e),!f``, in the order of the keys.  Raises SelectorError."""
    if not text.strip():
        return EVERYTHING
    return LabelSelector(ordered(_Parser(text).parse(), _KEY))


_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def from_label_selector(selector: Mapping[str, Tree] | None) -> LabelSelector | None:
    """A ``metav1.LabelSelector``; None (selects nothing) for None.  Raises SelectorError."""
    if selector is None:
        return None
    requirements = [
        label_requirement(key, "=", frozenset([value]))
        for key, value in elements(sorted((selector.get("matchLabels") or {}).items()))
    ]
    for expression in elements(selector, "matchExpressions"):
        operator = expression.get("operator", "")
        if operator not in _OPERATORS:
            raise SelectorError(f"{quote(operator)} is not a valid label selector operator")
        values = frozenset(expression.get("values") or ())
        requirements.append(label_requirement(expression.get("key", ""), _OPERATORS[operator], values))
    return LabelSelector(requirements)


_TERMS = {"In": "{0} in ({1})", "NotIn": "{0} notin ({1})", "Exists": "{0}", "DoesNotExist": "!{0}"}


def selector_text(selector: Mapping[str, Tree] | None) -> str:
    """A ``metav1.LabelSelector`` as the text of a label selector, in the order of its keys; "" for one without terms.

    Neither keys nor values are checked.
    """
    if not selector:
        return ""
    terms = [(key, f"{key}={value}") for key, value in entries(selector, "matchLabels")]
    for expression in elements(selector, "matchExpressions"):
        key, values = expression.get("key", ""), ",".join(ordered(expression.get("values") or ()))
        terms.append((key, _TERMS.get(expression.get("operator", ""), "{0}").format(key, values)))
    return ",".join(text for _, text in elements(ordered(terms, key=lambda term: term[0])))


class FieldRequirement(NamedTuple):
    key: str
    operator: str  # = or !=
    value: str


#: a key, the one value that it must have or None, and the values that it must not have
_FieldTerm = tuple[str, str | None, set[str]]


def _by_key(requirements: Iterable[FieldRequirement]) -> list[_FieldTerm]:
    """The terms grouped by key: a selector may have thousands of terms, but there are few keys."""
    wanted: dict[str, str] = {}
    refused: dict[str, set[str]] = {}
    for key, operator, value in requirements:
        values = refused.setdefault(key, set())
        if operator != "=":
            values.add(value)
        elif wanted.setdefault(key, value) != value:
            values.add(wanted[key])  # a key cannot have two values: no object matches
    return [(key, wanted.get(key), values) for key, values in refused.items()]


class FieldSelector:
    """A conjunction of equalities and inequalities."""

    __slots__ = ("_by_key", "requirements")

    def __init__(self, requirements: tuple[FieldRequirement, ...] = ()) -> None:
        self.requirements = requirements
        self._by_key: list[_FieldTerm] | None = None

    @property
    def empty(self) -> bool:
        return not self.requirements

    def matches(self, fields: Mapping[str, str]) -> bool:
        terms = self._by_key
        if terms is None:
            terms = self._by_key = _by_key(self.requirements)
        for key, wanted, refused in terms:
            value = fields.get(key, "")
            if (wanted is not None and value != wanted) or value in refused:
                return False
        return True

    def exact(self, key: str) -> str | None:
        for requirement in self.requirements:
            if requirement.key == key and requirement.operator == "=":
                return requirement.value
        return None


_FIELD_OPERATOR = re.compile("!=|==|=")
_SEPARATOR = re.compile(r"\\.?|,", re.DOTALL)  # a comma, or an escaped character
_SPECIAL = re.compile(r"\\(.?)|[,=]", re.DOTALL)


def _split_terms(text: str) -> list[str]:
    terms, start = [], 0
    for match in elements(_SEPARATOR.finditer(text)):
        if match[0] == ",":
            terms.append(text[start : match.start()])
            start = match.end()
    terms.append(text[start:])
    return terms


def _unescape(value: str) -> str:
    if "\\" not in value and "," not in value and "=" not in value:
        return value
    out, start = [], 0
    for match in elements(_SPECIAL.finditer(value)):
        char = match[1]
        if char is None:
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(match[0])}")
        if not char or char not in "\\,=":
            raise SelectorError(f"invalid field selector: invalid escape sequence: \\{char}")
        out += [value[start : match.start()], char]
        start = match.end()
    return "".join([*out, value[start:]])


def parse_fields(text: str) -> FieldSelector:
    """``a=b,c!=d``, in the order of the terms' texts.  Raises SelectorError."""
    requirements = []
    for term in elements(sorted(_split_terms(text))):
        if not term:
            continue
        match = _FIELD_OPERATOR.search(term)
        if match is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        value = _unescape(term[match.end() :])
        if match.start() or value:  # with neither a field nor a value it selects everything
            operator = "!=" if match[0] == "!=" else "="
            requirements.append(FieldRequirement(term[: match.start()], operator, value))
    return FieldSelector(tuple(requirements))


def with_labels(labels: Mapping[str, str], objects: Iterable[Object]) -> list[Object]:
    """The objects with all of these labels."""
    wanted = labels.items()
    return [obj for obj in elements(objects) if wanted <= (obj["metadata"].get("labels") or {}).items()]


class Predicate:
    """The selection of a list or watch, by labels and by fields.

    ``read`` returns the fields of a cached object, when it must be converted to another version first.  ``shards`` selects only
    the objects of a shard.
    """

    __slots__ = ("labels", "fields", "read", "shards")

    def __init__(
        self,
        labels: LabelSelector = EVERYTHING,
        fields: FieldSelector | None = None,
        read: Callable[..., Mapping[str, str]] | None = None,
        shards: Shards | None = None,
    ) -> None:
        self.labels = labels
        self.fields = fields or FieldSelector()
        self.read = read
        self.shards = shards

    @property
    def empty(self) -> bool:
        return self.labels.empty and self.fields.empty and self.shards is None

    @property
    def counts(self) -> bool:
        """Whether a page has ``remainingItemCount``; with a shard it counts all objects, as upstream."""
        return self.labels.empty and self.fields.empty

    def matches(self, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
        return self.labels.matches(labels) and self.fields.matches(fields)
