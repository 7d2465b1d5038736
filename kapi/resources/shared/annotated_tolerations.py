"""Tolerations in an annotation of a pod or a namespace, decoded as Go's ``json.Unmarshal`` does."""

from __future__ import annotations

from kapi.codecs.json_reading import loads
from kapi.machinery.each import elements, entries
from kapi.machinery.tree import Object

#: name in lower case -> (name on the wire, Python type, Go's name of the field, and its type)
_FIELDS: dict[str, tuple[str, type, str, str]] = {
    "key": ("key", str, "Key", "string"),
    "operator": ("operator", str, "Operator", "{}.TolerationOperator"),
    "value": ("value", str, "Value", "string"),
    "effect": ("effect", str, "Effect", "{}.TaintEffect"),
    "tolerationseconds": ("tolerationSeconds", int, "TolerationSeconds", "int64"),
}
_JSON = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}


def read_tolerations(text: str, package: str = "core") -> list[Object] | None:
    """The tolerations of a text; None for ``null``.  Raises ValueError with Go's text.

    ``package`` has upstream's type: the fields of ``core`` have no names of their own for JSON, those of ``v1`` have.
    """
    tree: object = loads(text.encode())
    what = "json: cannot unmarshal {} into Go {}"
    if tree is None:
        return None
    if not isinstance(tree, list):
        raise ValueError(what.format(_JSON[type(tree)], f"value of type []{package}.Toleration"))
    read = []
    for entry in elements(tree):
        if entry is not None and not isinstance(entry, dict):
            raise ValueError(what.format(_JSON[type(entry)], f"value of type {package}.Toleration"))
        toleration = {}
        for key, value in entries(entry):
            name, wanted, field, go_type = _FIELDS.get(key.lower(), ("", str, "", ""))
            if name and value is not None:
                if type(value) is not wanted:
                    shown = f"{field if package == 'core' else name} of type {go_type.format(package)}"
                    raise ValueError(what.format(_JSON[type(value)], f"struct field Toleration.{shown}"))
                toleration[name] = value
        read.append(toleration)
    return read
