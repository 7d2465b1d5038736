"""The documentation names files that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted((ROOT / "docs").rglob("*.rst"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_named_files_exist(document: Path) -> None:
    named = re.findall(r"``((?:kapi|etc|tests|docs)/[\w./-]+\.\w+)``", document.read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize(("flow", "least"), [("request", 20), ("watch", 8)])
def test_flows_are_lists_of_files(flow: str, least: int) -> None:
    text = (ROOT / "docs" / "architecture.rst").read_text()
    section = text.split(f".. files: {flow}\n")[1].strip().split("\n\n")[0]
    assert len(re.findall(r"^\d+\. ``kapi/[\w/]+\.py`` - ", section, re.M)) >= least


PACKAGES = sorted(path.parent for path in (ROOT / "kapi").glob("*/__init__.py"))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_packages_say_what_they_are(package: Path) -> None:
    """Upstream's counterpart, what belongs elsewhere, and two files to start with, which exist."""
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    assert "(upstream: " in text.split("\n\n")[0].replace("\n", " ")
    assert "Here belong" in text
    assert re.search(r"Not\s+here", text)
    first = re.findall(r"``([\w/]+\.(?:py|js))``", text.partition("Start reading with ")[2])
    assert len(first) == 2
    assert [name for name in first if not (package / name).exists()] == []


def test_packages_are_listed() -> None:
    text = (ROOT / "docs" / "architecture.rst").read_text()
    listed = re.findall(r"^   \* - ``kapi\.(\w+)``$", text, re.M)
    assert sorted(listed) == [package.name for package in PACKAGES]


def test_the_page_about_scheduling_names_each_part_of_the_package() -> None:
    text = (ROOT / "docs" / "explanation" / "time.rst").read_text()
    parts = [path.name for path in (ROOT / "kapi" / "process").glob("*.py") if path.name != "__init__.py"]
    assert len(parts) > 5
    assert [name for name in parts if f"``kapi/process/{name}``" not in text] == []


def test_terms_of_the_glossary_exist() -> None:
    text = (ROOT / "docs" / "architecture.rst").read_text()
    glossary = text.split("Glossary\n--------\n")[1].split("\nThe path of a request\n")[0]
    terms = {name for line in re.findall(r"^``.*", glossary, re.M) for name in re.findall(r"``([A-Z]\w+)``", line)}
    statement = re.compile(r"^ *class (\w+)[(:\[]", re.M)
    classes = {name for path in (ROOT / "kapi").rglob("*.py") for name in statement.findall(path.read_text())}
    assert len(terms) > 15
    assert terms - classes == set()


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Also not for annotations alone, and not inside of functions: each module can be read after those it names."""
    graph = grimp.build_graph("kapi", cache_dir=None)
    imported = {module: graph.find_modules_directly_imported_by(module) & graph.modules for module in graph.modules}
    while free := {module for module, others in imported.items() if not others}:
        imported = {module: others - free for module, others in imported.items() if module not in free}
    while free := imported.keys() - set().union(*imported.values()):  # what only leads to a circle
        imported = {module: others for module, others in imported.items() if module not in free}
    assert imported == {}
