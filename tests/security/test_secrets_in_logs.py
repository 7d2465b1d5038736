"""What must not be read by who may read logs: tokens, Secrets, cookies (class 6); and lines that a client has made up."""

from __future__ import annotations

import base64
from pathlib import Path

from tests.integration.server_process import ForkedServer
from tests.security.attacker import MERGE, Attacker
from tests.waiting import until

POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: Metadata, resources: [{group: authentication.k8s.io}]}
- {level: %s}
"""
HIDDEN = "hidden-in-a-secret"


def test_nothing_that_lets_somebody_in_is_logged(tmp_path: Path) -> None:
    """At the most talkative level; reviews of tokens, whose bodies are tokens, are recorded as one should."""
    policy, log = tmp_path / "policy.yaml", tmp_path / "audit.log"
    policy.write_text(POLICY % "Request")
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--v=10")
    with ForkedServer(*flags, directory=tmp_path) as server:
        admin = Attacker(server, "admintoken")
        for number in range(3):
            admin.ask("GET", f"/api/v1/nodes?n={number}", headers={"Cookie": "session=cookie-of-somebody"})
        Attacker(server, "not-a-token-but-secret").ask("GET", "/api/v1/nodes")
        basic = base64.b64encode(b"somebody:password-of-somebody").decode()
        Attacker(server).ask("GET", "/api/v1/nodes", headers={"Authorization": f"Basic {basic}"})
        protocols = "base64url.bearer.authorization.k8s.io." + base64.urlsafe_b64encode(b"admintoken").decode().rstrip(
            "="
        )
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Protocol": f"{protocols}, x"}
        Attacker(server).ask("GET", "/api/v1/pods?watch=1&timeoutSeconds=1", headers=upgrade)
        account = "/api/v1/namespaces/default/serviceaccounts"
        admin.create(account, {"metadata": {"name": "robot"}})
        token = admin.create(f"{account}/robot/token", {"spec": {}})["status"]["token"]
        review = {"spec": {"token": token}}
        assert admin.create("/apis/authentication.k8s.io/v1/tokenreviews", review)["status"]["authenticated"]
        Attacker(server, token).ask("GET", "/api/v1/nodes")
        Attacker(server, token[:-4] + "AAAA").ask("GET", "/api/v1/nodes")
        admin.ask("GET", "/api/v1/nosuch", headers={"X-Odd": HIDDEN})
        until(lambda: log.exists() and b"tokenreviews" in log.read_bytes())
    text = log.read_text() + "".join(server.output)
    signed = token.rpartition(".")
    for word in (
        "admintoken",
        "cookie-of-somebody",
        "not-a-token-but-secret",
        basic,
        "password-of-somebody",
        protocols,
        HIDDEN,
    ):
        assert word not in text.replace("admintoken,admin,admin", ""), word
    assert signed[2] not in text, "the signature of a token"


def test_a_path_is_one_line_of_the_log(tmp_path: Path) -> None:
    """Line ends of all kinds, and what a terminal obeys, are escaped; a plain line end is followed by a tab."""
    with ForkedServer("--v=10", directory=tmp_path) as server:
        admin = Attacker(server, "admintoken")
        for escape in ("%0a", "%0d", "%0d%0a", "%1b[2J", "%c2%85", "%e2%80%a8", "%e2%80%ae", "%0b", "%0c", "%7f"):
            assert admin.ask("GET", f"/version/{escape}2026-01-01T00:00:00+0000%20forged").status == 404
        until(lambda: sum("forged" in line for line in server.output) >= 10)
    lines = [line for line in server.output if "forged" in line]
    assert not [line for line in lines if line.startswith("2026-01-01")]
    for line in lines:
        assert line.removesuffix("\n").removeprefix("\t").isprintable(), ascii(line)


def test_secrets_are_not_recorded_by_metadata(tmp_path: Path) -> None:
    policy, log = tmp_path / "policy.yaml", tmp_path / "audit.log"
    policy.write_text(POLICY % "Metadata")
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={log}")
    with ForkedServer(*flags, directory=tmp_path) as server:
        admin = Attacker(server, "admintoken")
        path = "/api/v1/namespaces/default/secrets"
        admin.create(path, {"metadata": {"name": "s"}, "stringData": {"a": HIDDEN}})
        admin.ask("PATCH", f"{path}/s", {"stringData": {"b": HIDDEN}}, MERGE)
        admin.ask("POST", path, {"metadata": {"name": "S"}, "stringData": {"a": HIDDEN}})
        admin.ask("POST", path, b'{"stringData": {"a": "' + HIDDEN.encode() + b'"}')
        admin.ask("GET", f"{path}/s")
        until(lambda: log.exists() and log.read_bytes().count(b"secrets") > 4)
    text = log.read_text() + "".join(server.output)
    assert HIDDEN not in text and base64.b64encode(HIDDEN.encode()).decode() not in text
