"""Label and field selectors (upstream: apimachinery ``labels/selector.go`` and ``fields/selector.go``).

Parsing gives immutable objects with ``matches``; a Predicate is both together, as a list or watch selects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

from kapi.machinery.checkpoint import checkpoint, steps
from kapi.machinery.field import FieldError, invalid, quote
from kapi.machinery.label_terms import EXACT, LabelRequirement, ManyTerms, is_int
from kapi.machinery.names import checked_label_value, label_value, qualified_name
from kapi.machinery.text_set import MANY, TOO_MANY, text_set
from kapi.machinery.tree import Tree


class SelectorError(ValueError):
    """A selector that cannot be read; the text is for the client."""


class LabelSelector:
    """A conjunction of requirements; the empty one selects everything."""

    __slots__ = ("requirements",)

    def __init__(self, requirements: Sequence[LabelRequirement] = ()) -> None:
        many = MANY < len(requirements) <= TOO_MANY
        self.requirements: Sequence[LabelRequirement] = ManyTerms(requirements) if many else tuple(requirements)

    @property
    def empty(self) -> bool:
        return not self.requirements

    def matches(self, labels: Mapping[str, str]) -> bool:
        requirements = self.requirements
        if type(requirements) is ManyTerms:  # ``isinstance`` takes long for an abstract class's
            return requirements.matches(labels)
        terms = requirements if len(requirements) <= MANY else steps(requirements)
        return all(term.matches(labels) for term in terms)

    def exact(self, key: str) -> str | None:
        """The one value a key must have, or None."""
        for requirement in self.requirements:
            if requirement.key == key and requirement.operator in EXACT and len(requirement.values) == 1:
                return next(iter(requirement.values))
        return None


EVERYTHING = LabelSelector()
_TOKEN = re.compile(r"==|!=|=|>|<|!|\(|\)|,|[^\s=!><(),]+")


def _tokens(text: str) -> list[str]:
    found: list[str] = _TOKEN.findall(text)
    return found


_PUNCTUATION = {"==", "!=", "=", ">", "<", "!", "(", ")", ","}
_KEYWORDS = {"in", "notin"}


class _Parser:
    """Recursive descent over the tokens; the complaints name what was found and what was expected."""

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
                    self.take()
                    values.add("")
                continue
            raise SelectorError(f"found '{token}', expected: ',', or identifier")


def _complain(*errors: FieldError) -> SelectorError:
    """The errors as one; each text appears once."""
    for error in errors:
        error.field = error.field or "<nil>"
    texts = list(dict.fromkeys(map(str, errors)))
    return SelectorError(texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]")


def _check_key(key: str) -> None:
    problems = qualified_name(key)
    if problems:
        raise _complain(invalid("", key, "; ".join(problems)))


def label_requirement(key: str, operator: str, values: Set[str]) -> LabelRequirement:
    """A checked requirement.  Raises SelectorError."""
    errors: list[FieldError] = []
    if operator in ("gt", "lt"):
        for value in steps(values):
            if not is_int(value):
                errors.append(invalid("values[0]", value, "for 'Gt', 'Lt' operators, the value must be an integer"))
    check = label_value if len(values) <= MANY else checked_label_value
    if any(check(value) for value in steps(values)):  # else there is no need of an order
        for index, value in enumerate(steps(sorted(values))):
            problems = check(value)
            if problems:
                errors.append(invalid(f"values[{index}][{key}]", value, "; ".join(problems)))
    if errors:
        raise _complain(*errors)
    return LabelRequirement(key, operator, values)


def parse_labels(text: str) -> LabelSelector:
    """``a=b,c in (d,e),!f``.  Raises SelectorError."""
    if not text.strip():
        return EVERYTHING
    return LabelSelector(_Parser(text).parse())


_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def from_label_selector(selector: Mapping[str, Tree] | None) -> LabelSelector | None:
    """A ``metav1.LabelSelector``; None (selects nothing) for None.  Raises SelectorError."""
    if selector is None:
        return None
    requirements = [
        label_requirement(key, "=", frozenset([value]))
        for key, value in steps(sorted((selector.get("matchLabels") or {}).items()))
    ]
    for expression in steps(selector.get("matchExpressions") or ()):
        operator = expression.get("operator", "")
        if operator not in _OPERATORS:
            raise SelectorError(f"{quote(operator)} is not a valid label selector operator")
        values = frozenset(expression.get("values") or ())
        requirements.append(label_requirement(expression.get("key", ""), _OPERATORS[operator], values))
    return LabelSelector(requirements)


_TEXTS = {
    "=": "{0}={1}",
    "==": "{0}=={1}",
    "!=": "{0}!={1}",
    "exists": "{0}",
    "!": "!{0}",
    "gt": "{0}>{1}",
    "lt": "{0}<{1}",
}


def selector_text(selector: Mapping[str, Tree] | None) -> str:
    """The selector as text: what a Scale's ``status.selector`` says.

    A mapping without ``matchLabels`` and ``matchExpressions`` is a plain map of labels (ReplicationController).
    """
    if not selector:
        return ""
    if not isinstance(selector.get("matchLabels", {}), Mapping) or not (
        "matchLabels" in selector or "matchExpressions" in selector
    ):
        return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    parsed = from_label_selector(selector) or EVERYTHING
    return ",".join(_term_text(term) for term in sorted(parsed.requirements, key=lambda term: term.key))


def _term_text(term: LabelRequirement) -> str:
    if term.operator in ("in", "notin"):
        return f"{term.key} {term.operator} ({','.join(sorted(term.values))})"
    return _TEXTS[term.operator].format(term.key, next(iter(term.values), ""))


class FieldRequirement(NamedTuple):
    key: str
    operator: str  # = or !=
    value: str


class FieldSelector:
    """A conjunction of equalities and inequalities."""

    __slots__ = ("requirements",)

    def __init__(self, requirements: tuple[FieldRequirement, ...] = ()) -> None:
        self.requirements = requirements

    @property
    def empty(self) -> bool:
        return not self.requirements

    def matches(self, fields: Mapping[str, str]) -> bool:
        return all((fields.get(key, "") == value) == (operator == "=") for key, operator, value in self.requirements)

    def exact(self, key: str) -> str | None:
        for requirement in self.requirements:
            if requirement.key == key and requirement.operator == "=":
                return requirement.value
        return None


_FIELD_OPERATOR = re.compile("!=|==|=")
_SEPARATOR = re.compile(r"\\.?|,", re.DOTALL)  # a comma, or what is escaped
_SPECIAL = re.compile(r"\\(.?)|[,=]", re.DOTALL)


def _split_terms(text: str) -> list[str]:
    terms, start = [], 0
    for match in steps(_SEPARATOR.finditer(text)):
        if match[0] == ",":
            terms.append(text[start : match.start()])
            start = match.end()
    terms.append(text[start:])
    return terms


def _unescape(value: str) -> str:
    if "\\" not in value and "," not in value and "=" not in value:
        return value
    out, start = [], 0
    for match in steps(_SPECIAL.finditer(value)):
        char = match[1]
        if char is None:
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(match[0])}")
        if not char or char not in "\\,=":
            raise SelectorError(f"invalid field selector: invalid escape sequence: \\{char}")
        out += [value[start : match.start()], char]
        start = match.end()
    return "".join([*out, value[start:]])


def parse_fields(text: str) -> FieldSelector:
    """``a=b,c!=d``.  Raises SelectorError."""
    requirements = []
    for term in steps(_split_terms(text)):
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


class Predicate:
    """What a list or watch selects: labels and fields."""

    __slots__ = ("labels", "fields")

    def __init__(self, labels: LabelSelector = EVERYTHING, fields: FieldSelector | None = None) -> None:
        self.labels = labels
        self.fields = fields or FieldSelector()

    @property
    def empty(self) -> bool:
        return self.labels.empty and self.fields.empty

    def matches(self, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
        return self.labels.matches(labels) and self.fields.matches(fields)
