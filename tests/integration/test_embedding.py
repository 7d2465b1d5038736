"""kapi as a resource of a plain twisted.web Site in another application."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.testing import MemoryReactorClock

import kapi
from kapi.options.errors import ConfigError
from tests.integration.embedded_site import EmbeddedSite
from tests.waiting import until

MAPS = "/api/v1/namespaces/default/configmaps"
ADMISSION = "--disable-admission-plugins=ServiceAccount"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedSite]:
    directory = tmp_path_factory.mktemp("audit")
    policy = directory / "policy.yaml"
    policy.write_text('{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}')
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={directory / 'audit.log'}")
    with EmbeddedSite("--authorization-mode=Node,RBAC", ADMISSION, *flags) as running:
        running.audit = directory / "audit.log"  # type: ignore[attr-defined]
        yield running


class Stream:
    """A watch, line by line."""

    def __init__(self, site: EmbeddedSite, path: str, **headers: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=120)
        self._connection.request("GET", path, headers={"Authorization": "Bearer admintoken", **headers})
        self.answer = self._connection.getresponse()

    def event(self) -> Any:
        """The next one; None at the end of the stream."""
        line = self.answer.readline()
        return json.loads(line) if line else None

    def close(self) -> None:
        self._connection.close()


def test_objects_are_written_and_read(site: EmbeddedSite) -> None:
    code, made, headers = site.ask("POST", MAPS, config_map("one", a="1"))
    assert code == 201 and headers["Content-Type"] == "application/json" and headers["Audit-Id"]
    patch = {"data": {"b": "2"}}
    code, patched, _ = site.ask("PATCH", f"{MAPS}/one", patch, Content_Type="application/merge-patch+json")
    assert (code, patched["data"]) == (200, {"a": "1", "b": "2"})
    assert site.ask("GET", f"{MAPS}/one")[1]["metadata"]["uid"] == made["metadata"]["uid"]
    assert site.ask("DELETE", f"{MAPS}/one")[0] == 200
    assert site.ask("GET", f"{MAPS}/one")[1]["reason"] == "NotFound"


def test_filters_run(site: EmbeddedSite) -> None:
    assert site.ask("GET", MAPS, token="wrong")[0] == 401
    code, refusal, _ = site.ask("GET", MAPS, token="carolintoken")
    assert code == 403 and 'User "carol" cannot list resource "configmaps"' in refusal["message"]
    code, _, headers = site.ask("GET", MAPS)
    assert code == 200 and headers["X-Kubernetes-Pf-Flowschema-Uid"]
    assert site.ask("GET", MAPS, Impersonate_User="dora")[0] == 403
    lines = site.audit.read_text().splitlines()  # type: ignore[attr-defined]
    events = [json.loads(line) for line in lines]
    assert any(event["requestURI"] == MAPS and event["user"].get("username") == "carol" for event in events)
    assert all(event["sourceIPs"] == ["127.0.0.1"] for event in events if event["requestURI"] == MAPS)


@pytest.mark.parametrize(
    ("path", "code"), [("/nothing", 404), ("//metrics", 404), ("/api/v1/pods%zz", 400), ("/healthz", 200), ("/", 200)]
)
def test_paths_beside_resources(site: EmbeddedSite, path: str, code: int) -> None:
    assert site.ask("GET", path)[0] == code


def test_a_body_that_is_too_large_is_refused(site: EmbeddedSite) -> None:
    code, refusal, _ = site.ask("POST", MAPS, config_map("large", a="x" * (3 << 20)))
    assert (code, refusal["reason"]) == (413, "RequestEntityTooLarge")


def test_a_head_has_no_body(site: EmbeddedSite) -> None:
    code, text, headers = site.ask("HEAD", "/version/nothing")
    assert code == 404 and text == "" and int(headers["Content-Length"]) > 0


def test_large_lists_are_whole(site: EmbeddedSite) -> None:
    for number in range(4):
        assert site.ask("POST", MAPS, config_map(f"part-{number}", a="x" * 300_000))[0] == 201
    found = site.ask("GET", MAPS)[1]["items"]
    assert [len(item["data"]["a"]) for item in found if item["metadata"]["name"].startswith("part-")] == [300_000] * 4


def test_a_watch_tells_changes_and_ends_in_time(site: EmbeddedSite) -> None:
    start = site.ask("GET", MAPS)[1]["metadata"]["resourceVersion"]
    stream = Stream(site, f"{MAPS}?watch=1&resourceVersion={start}&timeoutSeconds=120")
    try:
        assert stream.answer.status == 200
        site.ask("POST", MAPS, config_map("seen"))
        site.ask("DELETE", f"{MAPS}/seen")
        events = [stream.event() for _ in range(2)]
        assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [
            ("ADDED", "seen"),
            ("DELETED", "seen"),
        ]
    finally:
        stream.close()
    stream = Stream(
        site,
        f"{MAPS}?watch=1&resourceVersion={site.ask('GET', MAPS)[1]['metadata']['resourceVersion']}&timeoutSeconds=1",
    )
    try:
        assert (stream.answer.status, stream.event()) == (200, None)
    finally:
        stream.close()


def test_a_watch_whose_client_has_gone_is_given_up(site: EmbeddedSite) -> None:
    def watches() -> int:
        text = site.ask("GET", "/metrics")[1]
        found = [line for line in text.splitlines() if line.startswith("apiserver_longrunning_requests{")]
        return sum(int(float(line.rsplit(" ", 1)[1])) for line in found if 'resource="configmaps"' in line)

    until(lambda: not watches())  # of the tests before
    stream = Stream(site, f"{MAPS}?watch=1")
    assert stream.answer.status == 200 and watches() == 1
    stream.answer.close()
    stream.close()
    until(lambda: not watches())  # the end of a connection is news that travels by itself


def test_upgrades_are_refused(site: EmbeddedSite) -> None:
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "a"}
    stream = Stream(site, f"{MAPS}?watch=1", Origin="http://x", **upgrade)
    try:
        assert stream.answer.status == 400
        assert "the connection cannot be upgraded" in json.loads(stream.answer.read())["message"]
    finally:
        stream.close()


def test_logical_clusters_have_the_same_limits() -> None:
    with EmbeddedSite("--authorization-mode=RBAC", ADMISSION, "--testbed", "--enable-logical-clusters") as site:
        assert site.ask("PUT", "/clusters/one")[0] == 201
        cluster = "/clusters/one"
        assert site.ask("POST", cluster + MAPS, config_map("one"))[0] == 201
        assert site.ask("GET", f"{cluster}{MAPS}/one")[0] == 200
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec_WebSocket_Version": "13", "Origin": "http://x"}
        code, refusal, _ = site.ask("GET", f"{cluster}{MAPS}?watch=1", Sec_WebSocket_Key="a", **upgrade)
        assert code == 400 and "the connection cannot be upgraded" in refusal["message"]


def test_below_a_path_of_the_site() -> None:
    with EmbeddedSite(ADMISSION, mount="cluster") as site:
        assert site.ask("POST", f"/cluster{MAPS}?fieldManager=a%20b", config_map("one", a="1"))[0] == 201
        assert site.ask("GET", f"/cluster{MAPS}/one")[1]["metadata"]["managedFields"][0]["manager"] == "a b"
        assert site.ask("GET", "/cluster")[1]["paths"] == site.ask("GET", "/cluster/")[1]["paths"]
        assert "kapi" not in site.ask("GET", "/elsewhere")[1]


def test_stopping_ends_watches_in_order() -> None:
    with EmbeddedSite(ADMISSION, anew=True) as site:
        stream = Stream(site, f"{MAPS}?watch=1")
        assert stream.answer.status == 200
        site.process.terminate()
        while (event := stream.event()) is not None:  # the last chunk comes, or this raises IncompleteRead
            assert event["type"] == "ADDED"
        stream.close()
        assert site.process.wait(120) == 0


def test_wrong_flags_are_told_and_the_application_goes_on(tmp_path: Path) -> None:
    for flag, text in (
        ("--workers=2", "--workers: an embedded server is one process"),
        ("--authorization-mode=Nothing", "authorization-mode"),
    ):
        with pytest.raises(ConfigError, match=text):
            kapi.resource(f"--data-dir={tmp_path}", flag, reactor=MemoryReactorClock())


def test_importing_kapi_reads_nothing_else() -> None:
    program = "import sys, kapi; print([name for name in sys.modules if name.startswith(('kapi.', 'twisted'))])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
