"""What a server without particular flags does not import: each takes memory in every process, and time at every start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CODE = """
import sys
from pathlib import Path

import kapi.app
from tests.assembly.assembled import assembled

assembled(Path(sys.argv[1]))
print(*sorted(sys.modules), sep="\\n")
"""
NOT_NEEDED = (
    "h11", "jwt", "multipart", "re2", "stringprep", "treq", "twisted.web.client", "wsproto", "yaml", "zoneinfo",
    "kapi.authentication.oidc.provider", "kapi.cel.evaluator", "kapi.cel.parser",
    "kapi.authentication.service_account.signer", "kapi.cel.standard", "kapi.client.endpoint_client", "kapi.codecs.yaml_reading",
    "kapi.audit.policy", "kapi.audit.sinks", "kapi.servers.apiextensions.rows", "kapi.resources.apiextensions.validation",
    "kapi.cel.estimate", "kapi.schema.structural.values",
)  # fmt: skip


def test_a_server_loads_nothing_that_few_need(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", CODE, str(tmp_path)], capture_output=True, text=True, timeout=120)
    loaded = done.stdout.split()
    assert "kapi.assembly.server" in loaded, done.stderr
    assert [name for name in NOT_NEEDED if name in loaded] == []
