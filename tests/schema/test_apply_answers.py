"""What structured-merge-diff answers for random values: which are wrong, merges, comparisons, field sets and their operations."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kapi.machinery.tree import Object
from kapi.schema.apply import comparing, fieldset, typed
from kapi.schema.apply.conflict import Conflicts, Manager
from kapi.schema.apply.shape import Shape, Shapes, shape_of
from kapi.schema.apply.updater import Managers, Owned, Updater, reconcile
from tests.schema.smd_schema import VECTORS, Parser


def shape(name: str) -> Shape:
    return shape_of(Parser.load("random-schema.yaml").type(name), Shapes())


def answers(name: str) -> list[Any]:
    """One a line."""
    found: list[Any] = json.loads((VECTORS / name).read_text())
    return found


@pytest.mark.parametrize("row", answers("random.json"))
def test_random_values(row: Object) -> None:
    root, one = shape("root"), row["a"]
    if "invalid" in row:
        with pytest.raises(typed.SchemaError) as caught:
            typed.validate(root, one)
        assert sorted(str(caught.value).split("\n")) == sorted(row["invalid"].split("\n"))  # fields have no order there
        if "b" not in row:
            with pytest.raises(typed.SchemaError):
                typed.validate(root, one, allow_duplicates=True)
            return
    else:
        typed.validate(root, one)
    other = row["b"]
    found = comparing.compare(root, one, other)
    mine, theirs = typed.field_set(root, one), typed.field_set(root, other)
    named = typed.with_named_fields(root, found.changed)
    expected: list[tuple[str, Any]] = [
        ("merged", typed.merge(root, one, other)),
        ("without", typed.remove(root, one, fieldset.difference(mine, theirs)) or None),
        ("added", found.added), ("modified", found.modified), ("removed", found.removed), ("set", mine), ("named", named),
        ("union", fieldset.union(mine, theirs)), ("both", fieldset.intersection(mine, theirs)),
        ("less", fieldset.difference(mine, theirs)), ("below", fieldset.difference(mine, theirs, recursive=True)),
    ]  # fmt: skip
    assert {name: as_stored(value) if name not in ("merged", "without") else value for name, value in expected} == {
        name: row[name] for name, _ in expected
    }
    assert fieldset.contains(fieldset.union(mine, theirs), theirs)
    assert fieldset.contains(mine, theirs) == (fieldset.union(mine, theirs) == mine)
    if "reconciled" in row:
        changed = reconcile(shape("changed"), mine)
        assert as_stored(changed) == (row["reconciled"] or row["set"])


@pytest.mark.parametrize("history", answers("histories.json"))
def test_random_histories(history: list[Object]) -> None:
    updater = Updater(shape("root"), "v1", {})
    live: Object = {}
    managers: Managers = {}
    for step in history:
        writer, new = Manager(step["manager"], "Update" if "update" in step else "Apply", ""), step["object"]
        if "conflicts" in step:
            with pytest.raises(Conflicts) as caught:
                updater.apply(live, new, managers, writer, False)
            found = [f"{each.manager.name} {fieldset.show(each.path)}" for each in caught.value.conflicts]
            assert sorted(found) == step["conflicts"]
            continue
        if "update" in step:
            before = managers.get(writer, Owned({}, "v1", False)).fields
            difference = updater.compare(live, new)
            changed, managers = updater.update(live, new, managers)
            kept = fieldset.difference(before, difference.removed)
            managers = {**managers, writer: Owned(fieldset.union(kept, changed), "v1", False)}
            live = new
        else:
            applied, managers = updater.apply(live, new, managers, writer, step["force"])
            live = live if applied is None else applied
        assert live == (step["live"] or {})
        owned = {manager.name: as_stored(each.fields) for manager, each in managers.items() if each.fields}
        assert owned == step["owned"]


def as_stored(fields: fieldset.Set) -> Object:
    """As it is written into managed fields, with what its elements are read as."""
    written: Object = json.loads(json.dumps(fieldset.canonical(fields)))
    assert fieldset.canonical(fieldset.decode(written)) == fieldset.canonical(fields)
    return written


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('null', '{}'), ('{}', '{}'), ('{"f:":{}}', '{"f:":{}}'), ('{"f:a":null}', '{"f:a":{}}'),
        ('{"i:1":{}}', '{"i:1":{}}'), ('{"i:-1":{}}', '{"i:-1":{}}'), ('{"v:1":{}}', '{"v:1":{}}'),
        ('{"v:\\"a\\"":{}}', '{"v:\\"a\\"":{}}'),
        ('{"k:{\\"b\\":1,\\"a\\":\\"x\\"}":{}}', '{"k:{\\"a\\":\\"x\\",\\"b\\":1}":{}}'), ('{"k:{}":{}}', '{"k:{}":{}}'),
        ('{"x:a":{}}', '{}'), ('{"x:a":{"f:b":{}}}', '{}'), ('{"f:a":{"x:b":{}}}', '{"f:a":{}}'), ('{".":{}}', '{}'),
        ('{"f:a":{".":{},"f:b":{}}}', '{"f:a":{".":{},"f:b":{}}}'), ('{"f:a":{".":1}}', '{"f:a":{}}'),
        ('{"v:1.0":{}}', '{"v:1":{}}'), ('{"v:1e3":{}}', '{"v:1000":{}}'),
        ('{"v:true":{},"v:null":{}}', '{"v:true":{},"v:null":{}}'), ('{"f:b":{},"f:a":{}}', '{"f:a":{},"f:b":{}}'),
    ],
)  # fmt: skip
def test_what_is_read_of_managed_fields(text: str, kept: str) -> None:
    """Elements of unknown kinds are dropped, the others written in their normal form."""
    assert json.dumps(fieldset.canonical(fieldset.decode(json.loads(text))), separators=(",", ":")) == kept


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('"x"', 'expect { or n'), ('[]', 'expect { or n'), ('{"f":{}}', 'key must be 2 characters long:'),
        ('{"":{}}', 'key must be 2 characters long:'), ('{"fx":{}}', 'missing colon: fx'), ('{"f:a":1}', 'expect { or n'),
        ('{"f:a":[]}', 'expect { or n'), ('{"f:a":{"f:b":"x"}}', 'expect { or n'),
        ('{"i:x":{}}', 'strconv.Atoi: parsing "x": invalid syntax'),
        ('{"i:":{}}', 'strconv.Atoi: parsing "": invalid syntax'),
        ('{"i:99999999999999999999":{}}', 'strconv.Atoi: parsing "99999999999999999999": value out of range'),
        ('{"v:x":{}}', 'parsing key as path element'), ('{"v:":{}}', 'parsing key as path element'),
        ('{"k:1":{}}', 'expect { or n'), ('{"k:[]":{}}', 'expect { or n'), ('{"k:":{}}', 'parsing key as path element'),
    ],
)  # fmt: skip
def test_what_managed_fields_may_not_have(text: str, why: str) -> None:
    with pytest.raises(fieldset.BadSet) as caught:
        fieldset.decode(json.loads(text))
    assert str(caught.value).startswith("error decoding set: ") and why in str(caught.value)


@pytest.mark.parametrize(
    ("element", "shown"),
    [
        ("f:a", ".a"), ("i:3", "[3]"), ('v:"a"', '[="a"]'), ("v:1", "[=1]"), ("v:true", "[=true]"), ("v:null", "[=null]"),
        ('k:{"b":1,"a":"x"}', '[a="x",b=1]'), ("v:[1,[null]]", "[=[1,[null]]]"), ('v:{"a":{"b":true}}', "[=a=b=true]"),
    ],
)  # fmt: skip
def test_elements_in_conflicts(element: str, shown: str) -> None:
    assert fieldset.show_element(element) == shown
