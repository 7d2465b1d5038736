"""The tests on each Python of the README: ``nox`` runs the quick part on all that are here, ``nox -s tests-3.14`` the whole."""

from __future__ import annotations

import nox

PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
nox.options.sessions = ["quick"]
nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = False


@nox.session(python=PYTHONS)
def quick(session: nox.Session) -> None:
    """The tests of the quick part, about a minute."""
    session.install("-e", ".[quick]")
    session.run("python", "-m", "pytest", "--quick", *session.posargs)


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """All tests."""
    session.install("-e", ".[test]")
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session(python=PYTHONS[0])
def types(session: nox.Session) -> None:
    """mypy as on Linux and as on macOS, and pyright for a program on the public names."""
    session.install("-e", ".[test]", "pyright")
    session.run("mypy")
    session.run("mypy", "--platform", "darwin")
    session.run("pyright", "tests/typing")
