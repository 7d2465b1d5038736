"""The reference pages name every metric of kapi's own and every file that a flag names."""

from __future__ import annotations

import re
from pathlib import Path

from kapi.admission.catalogue import PLUGINS
from kapi.options.options import Options
from kapi.store.address import OPTIONS
from tests.store.test_rights import CONFIRMING, checked

ROOT = Path(__file__).parents[2]
#: what ends so is no file
_NO_FILES = {"runtime-config"}


def first_cells(page: str) -> str:
    """The first column of a page's tables."""
    return "\n".join(re.findall(r"^   \* - (.*)$", (ROOT / "docs" / page).read_text(), re.M))


def test_metrics_of_kapis_own_are_listed() -> None:
    sources = [path for path in (ROOT / "kapi").rglob("*.py") if path.parent.name != "testing"]
    made = {name for path in sources for name in re.findall(r'"(kapi_[a-z_]+)"', path.read_text())}
    assert len(made) > 5
    assert made == set(re.findall(r"``(kapi_\w+)``", first_cells("metrics.rst")))


def test_files_that_flags_name_are_listed() -> None:
    known = {name for group in Options().groups for name in group.flags}
    flags = {name for name in known if re.search(r"-(file|config|manifest)$", name)} - _NO_FILES
    page = (ROOT / "docs" / "configuration.rst").read_text()
    assert len(flags) > 20
    assert [flag for flag in sorted(flags) if f"``--{flag}``" not in page] == []
    named = set(re.findall(r"``--([a-z-]+)``", page))
    assert sorted(named - known) == []


def test_options_of_the_stores_url_are_listed() -> None:
    assert set(re.findall(r"^``([a-z-]+)=``", first_cells("store.rst"), re.M)) == OPTIONS


def test_rights_for_the_store_are_listed() -> None:
    """As the start checks them; ``tests/store/test_rights.py`` runs a store as a user with these alone."""
    page = (ROOT / "docs" / "store.rst").read_text()
    line = page[page.index("user kapi on") : page.index("(in one line)")]
    assert set(re.findall(r"\+(\S+)", line)) == {name.lower() for name in checked() - CONFIRMING}
    more = re.search(r"also ``(\+[^`]+)``", page)
    assert more is not None and {name.lower() for name in CONFIRMING} <= set(re.findall(r"\+(\S+)", more[1]))


def test_plugins_with_a_configuration_are_there() -> None:
    section = (ROOT / "docs" / "configuration.rst").read_text().partition("\nConfigurations of admission plugins\n")[2]
    named = set(re.findall(r"``(\w+)``", "\n".join(re.findall(r"^   \* - (.*)$", section, re.M))))
    assert len(named) > 5
    assert named - set(PLUGINS) == set()


def test_versions_of_configurations_are_read() -> None:
    """Each kind that the page names stands in the code with its group and version."""
    page = (ROOT / "docs" / "configuration.rst").read_text()
    kinds = re.findall(r"``(\w+)`` of ``([\w.-]+)/(v\w+)``", page)
    code = "".join(path.read_text() for path in (ROOT / "kapi").rglob("*.py"))
    assert len(kinds) > 5
    assert [kind for kind in kinds if not all(part in code for part in kind)] == []


#: flags of other programs on pages about the server: kubectl, kube-controller-manager, twistd, openssl, redis-cli, the
#: benchmarks, ``python3 -m venv``, podman, ``kapi restore``
_OTHERS = {
    "logfile",
    "logger",
    "syslog",
    "raw",
    "server-side",
    "now",
    "latency",
    "only",
    "server",
    "flag",
    "python",
    "bump-revision",
    "help-server",
    "install",
    "reactor",
    "service-account-private-key-file",
    "root-ca-file",
    "cluster-signing-cert-file",
    "format",
}
_SERVER = ("operations.rst", "flags.rst", "configuration.rst", "compatibility.rst", "howto/*.rst", "explanation/*.rst")


def test_flags_that_pages_about_the_server_name_exist() -> None:
    known = {name for group in Options().groups for name in group.flags} | _OTHERS
    pages = [page for pattern in _SERVER for page in (ROOT / "docs").glob(pattern)]
    assert len(pages) > 12
    unknown = {
        f"{page.name}: {flag}"
        for page in pages
        for flag in re.findall(r"``[^`\n]*?--([a-z][a-z0-9-]+)", page.read_text())
        if flag not in known
    }
    assert unknown == set()
