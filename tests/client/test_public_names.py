"""What programs may import is named in one place for each package, and is loaded when it is asked for."""

from __future__ import annotations

import importlib
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kapi

ROOT = Path(__file__).parents[2]
PACKAGES = ["kapi.client", "kapi.runtime", "kapi.testing"]


@pytest.mark.parametrize("package", PACKAGES)
def test_each_public_name_is_there(package: str) -> None:
    module = importlib.import_module(package)
    assert dir(module) == module.__all__ == sorted(set(module.__all__))
    missing = [name for name in module.__all__ if not hasattr(module, name)]
    assert missing == []
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'Nothing'"):
        _ = module.Nothing


@pytest.mark.parametrize("package", PACKAGES)
def test_type_checkers_see_the_same_names(package: str) -> None:
    """They read the imports, which do not run."""
    text = Path(importlib.import_module(package).__file__ or "").read_text()
    block = text[text.index("if TYPE_CHECKING:") : text.index("__all__")]
    imported = re.findall(r"from ([\w.]+) import (\w+) as (\w+)", block)
    assert sorted(name for _, name, _ in imported) == importlib.import_module(package).__all__
    for place, name, public in imported:
        assert name == public
        assert getattr(importlib.import_module(package), name) is getattr(importlib.import_module(place), name)


def test_help_shows_the_public_surface() -> None:
    text = pydoc.plain(pydoc.render_doc(kapi))
    for name in kapi.__all__:
        assert f"kapi.{name}" in text or name == "__version__", name
    assert "internal" in text and f"VERSION\n    {kapi.__version__}" in text
    assert re.search(r"resource\(\s*\*flags", text)  # on one line or, from Python 3.13 on, on several


def test_the_package_alone_loads_nothing_else() -> None:
    code = "import sys, kapi; print([name for name in sys.modules if name.startswith(('kapi.', 'twisted'))])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout == "[]\n", done.stderr


def test_an_unknown_name_of_the_package_is_an_error() -> None:
    with pytest.raises(AttributeError, match="module 'kapi' has no attribute 'nothing'"):
        _ = kapi.nothing  # type: ignore[attr-defined]
