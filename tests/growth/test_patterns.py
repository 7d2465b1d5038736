"""What reads a client's texts by patterns takes time in proportion to a text, also when it does not fit."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
import time
from collections.abc import Callable, Iterator
from types import BuiltinMethodType, FunctionType, ModuleType
from typing import Any

import pytest

import kapi
from kapi.cel.library import urls
from kapi.codecs import json_reading
from kapi.machinery import golang, jsonpath, pem, quantity
from kapi.resources.shared import env, volume_sources
from kapi.schema.structural import field_path, formats
from kapi.servers.aggregator import objects
from kapi.testing import process
from tests.extras import imported

FEW, FACTOR = 300, 7.0  # repetitions, and how much longer four times as many may take
NOISE = 0.0005  # seconds of CPU
TRIES = 5
PUMPS = ("a", "1", "0", " ", ".", "-", "/", ":", "=", "_", "%", "\\", "'", '"', "(", "[", "*", "\n", "a1", "1.", "a.", "a-",
         "a/", "1:", "['", '\\"', "a ", " a")  # fmt: skip
BEGINNINGS = ("", "a", "1", "-----BEGIN A-----\n", '"', "'", "`")
ENDS = ("", "\0")


def seconds(work: Callable[[], Any]) -> float:
    begin = time.process_time()
    try:
        work()
    except (ValueError, AttributeError):
        pass
    return time.process_time() - begin


def growth(work: Callable[[int], Any], few: int) -> float:
    best = [float("inf"), float("inf")]
    for _ in range(TRIES):
        best = [min(best[0], seconds(lambda: work(few))), min(best[1], seconds(lambda: work(4 * few)))]
        if best[1] < FACTOR * max(best[0], NOISE):
            return 0.0
    return best[1] / best[0]


def modules() -> Iterator[ModuleType]:
    for module in pkgutil.walk_packages(kapi.__path__, "kapi."):
        if module.name.endswith("__main__") or module.name.startswith(process.__package__):
            continue
        loaded = imported(module.name)
        if loaded is not None:
            yield loaded


def patterns() -> dict[str, re.Pattern[Any]]:
    """Those of all modules, also the ones of which only a method is kept."""
    found: dict[str, re.Pattern[Any]] = {}
    for loaded in modules():
        for value in vars(loaded).values():
            if isinstance(value, BuiltinMethodType):
                value = value.__self__
            kept = [value] if isinstance(value, re.Pattern) else []
            if isinstance(value, dict):
                kept = [each.__self__ if isinstance(each, BuiltinMethodType) else each for each in value.values()]
            if isinstance(value, FunctionType) and value.__closure__:
                kept = [cell.cell_contents for cell in value.__closure__]
            found |= {str(each.pattern): each for each in kept if isinstance(each, re.Pattern)}
    return found


SEARCHES = frozenset(["search", "sub", "subn", "split", "findall", "finditer"])
_SEARCH_BY_TEXT = re.compile(rf"\bre\s*\.\s*({'|'.join(SEARCHES)})\b")


def searched() -> dict[str, re.Pattern[Any]]:
    """Those that are looked for from every character of a text."""
    found: dict[str, re.Pattern[Any]] = {}
    for loaded in modules():
        names = vars(loaded)
        kept = [
            value.__self__
            for value in names.values()
            if isinstance(value, BuiltinMethodType) and value.__name__ in SEARCHES
        ]
        source = inspect.getsource(loaded)
        if not (_SEARCH_BY_TEXT.search(source) or any(isinstance(value, re.Pattern) for value in names.values())):
            continue  # a tree of each module would take some seconds
        for node in ast.walk(ast.parse(source)):
            match node:
                case ast.Call(ast.Attribute(ast.Name("re"), method), [ast.Constant(text), *_]) if method in SEARCHES:
                    kept.append(re.compile(text))
                case ast.Call(ast.Attribute(ast.Name(name), method)) if method in SEARCHES:
                    kept.append(names.get(name))
        found |= {str(each.pattern): each for each in kept if isinstance(each, re.Pattern)}
    return found


def test_no_search_goes_over_a_text_once_more_from_each_character() -> None:
    found = searched()
    assert len(found) > 20
    slow = []
    for pattern in found.values():
        for beginning in BEGINNINGS:
            for pump in (*PUMPS, "\\'\n", '",', "','"):
                for end in ENDS:

                    def work(count: int, text: tuple[str, str, str] = (beginning, pump, end)) -> None:
                        whole = text[0] + text[1] * count + text[2]
                        pattern.findall(whole if isinstance(pattern.pattern, str) else whole.encode())  # noqa: B023

                    if growth(work, FEW):
                        slow.append((pattern.pattern, beginning, pump, end))
    assert not slow, "\n".join(map(repr, slow))


def test_no_pattern_tries_a_text_in_many_ways() -> None:
    found = patterns()
    assert len(found) > 80
    slow = []
    for pattern in found.values():
        for beginning in BEGINNINGS:
            for pump in PUMPS:
                for end in ENDS:

                    def work(count: int, text: tuple[str, str, str] = (beginning, pump, end)) -> None:
                        whole = text[0] + text[1] * count + text[2]
                        pattern.match(whole if isinstance(pattern.pattern, str) else whole.encode())  # noqa: B023

                    if growth(work, FEW):
                        slow.append((pattern.pattern, beginning, pump, end))
    assert not slow, "\n".join(map(repr, slow))


def pieces_of_an_event(count: int) -> None:
    lines = objects._Lines()
    for _ in range(4 * count):
        lines.dataReceived(b"x" * 500)


WORK: dict[str, Callable[[int], Any]] = {
    "an event in pieces": pieces_of_an_event,
    "zeros of a quantity": lambda count: quantity.canonical("0" * count + "!"),
    "digits of a quantity": lambda count: quantity.canonical("1" * count + "!"),
    "terms of a duration": lambda count: golang.nanoseconds("1s" * count * 20),
    "a field's subscripts": lambda count: env._subscripted("a" + "['" * count),
    "blocks that never end": lambda count: list(pem.blocks(b"-----BEGIN A-----\n" * count)),
    "blocks of other kinds": lambda count: list(
        pem.blocks(b"".join(b"-----BEGIN %d-----\n" % each for each in range(count)) + b"-----END A-----" * count)
    ),
    "certificates that never end": lambda count: pem.certificates("-----BEGIN CERTIFICATE-----" * count),
    "a text that is not closed behind a constant": lambda count: json_reading.loads(b'[NaN,"' + b'\\"' * 4 * count),
    "a name that is not closed": lambda count: field_path.field_path("['" + "\\'\n" * count, {}),
    "blanks in a filter": lambda count: jsonpath.read_template(f"{{[?(@.a{' ' * count}b)]}}", allow_missing=True),
    "escapes in a host": lambda count: urls.parse("http://" + "%41" * count),
    "an initiator's names": lambda count: volume_sources.initiator_texts("iqn.2001-04.a" * count),
    **{
        f"format {name} of {beginning}{pump}": lambda count, name=name, text=(beginning, pump): formats.valid(
            name, text[0] + text[1] * count
        )
        for name in formats.CHECKS
        for beginning in ("", "<")
        for pump in ("1", "a", "(", ":", "%41", "a.")
    },
}


@pytest.mark.parametrize("name", WORK)
def test_texts_are_read_in_proportion(name: str) -> None:
    assert not growth(WORK[name], 1000)


def test_certificates_are_found_as_before() -> None:
    one = "-----BEGIN CERTIFICATE-----\na\n-----END CERTIFICATE-----"
    assert pem.certificates(f"{one}\n{one}x-----BEGIN CERTIFICATE-----") == [one, one]
