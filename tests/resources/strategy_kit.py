"""For tests of strategies: objects made as the registry makes them, and the errors of a create or an update."""

from __future__ import annotations

from typing import Any

from kapi.machinery import tree
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext

CTX = StrategyContext("default", "a", now="2024-01-01T00:00:00Z")
#: the long texts of rules for names
_TEXTS = {
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')": "<subdomain>",
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    "alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')":
        "<label>",
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end "
    "with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')": "<DNS-1035 label>",
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' "
    "(e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')": "<identifier>",
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')": "<name part>",
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')": "<label value>",
    "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')":
        "<qualified name>",
}  # fmt: skip


def short(texts: list[str], prefix: str = "") -> list[str]:
    """Errors without a prefix of their paths, and with ``<label>`` and so on for the whole text of such a rule."""
    for text, name in _TEXTS.items():
        texts = [each.replace(text, name) for each in texts]
    return [each.removeprefix(prefix) for each in texts]


def made(row: Resource, ctx: StrategyContext = CTX, **parts: Any) -> Object:
    """An object named ``a`` with defaults, prepared for creation; ``metadata`` is added to its own."""
    obj: Object = {"metadata": {"name": "a", **parts.pop("metadata", {})}, **tree.copy(parts)}
    if row.namespaced:
        obj["metadata"].setdefault("namespace", "default")
    row.strategy.default(obj)
    row.strategy.prepare_for_create(obj, ctx)
    return obj


def problems(row: Resource, ctx: StrategyContext = CTX, **parts: Any) -> list[str]:
    """The errors of a create."""
    return [str(error) for error in row.strategy.validate(made(row, ctx, **parts), ctx)]


def changes(row: Resource, old: Object, *, subresource: str = "", **parts: Any) -> list[str]:
    """What an update is refused for that puts ``parts`` into ``old``."""
    strategy = row.strategy
    if subresource:
        found = row.subresource(subresource)
        assert found is not None and found.strategy is not None
        strategy = found.strategy
    old = {**tree.copy(old), "metadata": {**old["metadata"], "uid": "u", "resourceVersion": "1"}}
    new = {**tree.copy(old), **tree.copy(parts)}
    strategy.prepare_for_update(new, old, CTX)
    return [str(error) for error in strategy.validate_update(new, old, CTX)]
