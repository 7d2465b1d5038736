"""The CustomResourceDefinitions of well-known projects, as they publish them."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tests.integration.server_process import Kubectl, ServerProcess

#: an archive for each project
BUNDLES = Path(__file__).parents[3] / "shared" / "data" / "crds"


def _definitions(bundle: Path) -> list[str]:
    """The texts of its definitions; other objects and other files are left out."""
    found: list[str] = []
    with tarfile.open(bundle) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() and member.name.endswith(".yaml") else None
            if file is not None:
                documents = ("\n" + file.read().decode()).split("\n---\n")
                found += [text for text in documents if "\nkind: CustomResourceDefinition\n" in text]
    return found


@pytest.mark.skipif(not BUNDLES.is_dir(), reason="the projects' CRDs are not beside this checkout (shared/data/crds)")
@pytest.mark.parametrize("bundle", sorted(BUNDLES.glob("*.tar.xz")), ids=lambda path: str(path.name).partition(".")[0])
def test_all_definitions_of_a_project_are_taken(server: ServerProcess, kubectl_binary: str, bundle: Path) -> None:
    texts = _definitions(bundle)
    kubectl = Kubectl(server, kubectl_binary)
    taken = kubectl.run("create", "--dry-run=server", "-f", "-", stdin="\n---\n".join(texts)).splitlines()
    assert len(taken) == len(texts) > 0
