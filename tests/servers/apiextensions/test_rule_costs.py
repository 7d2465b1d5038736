"""The estimated cost of validation rules over the keys of maps, as kube-apiserver estimates it: its key type has no size."""

from __future__ import annotations

import pytest

from kapi.machinery.tree import Object
from kapi.testing.memory_api import MemoryAPI
from tests.servers.apiextensions.definition_kit import DEFINITIONS, definition, version

#: what real projects demand of the keys of a map of any size
OVER_KEYS = {
    "pattern": "self.all(k, k.matches('^[A-Z]+(_[A-Z]+)+$'))",
    "size and pattern": "self.all(k, size(k) < 63 && k.matches('^[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?$'))",
    "part": "self.all(k, !k.contains('*'))",
    "size": "self.all(k, k.size() != 0)",
    "split": "self.all(k, k.split('/')[0].size() < 253)",
    "found": "self.all(k, k in ['example.com/a', 'example.com/b'] || !k.find('^([^/]+)').endsWith('example.com'))",
    "compared": "self.all(k, k != 'example.com/pool')",
}


def _labels(rule: str) -> Object:
    rules = [{"rule": rule, "message": "no good key"}]
    labels = {"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-validations": rules}
    return definition(version(spec={"labels": labels}))


@pytest.mark.parametrize("name", OVER_KEYS)
def test_rules_over_keys_of_a_map_without_bounds_are_taken(api: MemoryAPI, name: str) -> None:
    answer = api.ask("POST", f"{DEFINITIONS}?dryRun=All", _labels(OVER_KEYS[name]))
    assert answer.code == 201, answer.json["message"]


def test_the_same_rules_over_values_are_too_expensive(api: MemoryAPI) -> None:
    answer = api.ask("POST", f"{DEFINITIONS}?dryRun=All", _labels("self.all(k, self[k].matches('^[a-z]+$'))"))
    assert answer.code == 422
    assert "estimated rule cost exceeds budget by factor of more than 100x" in answer.json["message"]


@pytest.mark.parametrize(("limit", "code"), [({}, 422), ({"maxLength": 20}, 201)], ids=["no limit", "a limit"])
def test_the_limits_of_a_declared_name_count(api: MemoryAPI, limit: Object, code: int) -> None:
    """Rules see the metadata as the schema declares it, when it declares all that rules may see."""
    text: Object = {"type": "string"}
    one = version(spec={"texts": {"type": "array", "maxItems": 1000, "items": text}})
    schema = one["schema"]["openAPIV3Schema"]
    names = {"name": {**text, **limit}, "generateName": text}
    schema["properties"] |= {"kind": text, "apiVersion": text, "metadata": {"type": "object", "properties": names}}
    schema["x-kubernetes-validations"] = [{"rule": "self.spec.texts.all(x, !self.metadata.name.contains('foo'))"}]
    answer = api.ask("POST", f"{DEFINITIONS}?dryRun=All", definition(one))
    assert answer.code == code, answer.json
