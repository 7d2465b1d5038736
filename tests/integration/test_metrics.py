"""/metrics of a running server against upstream's names and types."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kapi.observability.metrics import name_of
from tests.assembly.assembled import assembled
from tests.integration.server_process import ForkedServer, ServerProcess, api_request, connect
from tests.integration.test_outgoing_identity import Backend
from tests.waiting import until

LINES = (Path(__file__).parents[1] / "observability" / "upstream_metrics.txt").read_text().splitlines()[1:]


_WATCH_LIST = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ForkedServer() as server:
        yield server


@pytest.fixture(scope="module")
def first(server: ServerProcess) -> str:
    """Its metrics, when they are read for the first time."""
    return api_request(server, "GET", "metrics")[1].decode()


def judged(_: str, review: Any) -> Any:
    """The answer of a webhook: nothing may be made in the namespace ``refused``."""
    request = review["request"]
    allowed = request["namespace"] != "refused"
    return {**review, "response": {"uid": request["uid"], "allowed": allowed, "status": {"code": 418}}}


@pytest.fixture(scope="module")
def text(server: ServerProcess, first: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Its metrics, after a few requests.  A metric without any value is not shown."""
    configmaps = "api/v1/namespaces/default/configmaps"
    accounts = "api/v1/namespaces/default/serviceaccounts"
    # controllers make them, maybe after the server is ready; the tests count the first
    for made in (f"{configmaps}/kube-root-ca.crt", f"{accounts}/default"):
        until(lambda made=made: api_request(server, "GET", f"{made}?resourceVersion=0")[0] == 200)  # type: ignore[misc]
    api_request(server, "POST", configmaps, {"metadata": {"name": "a"}})
    api_request(server, "GET", configmaps)
    api_request(server, "GET", f"{configmaps}?limit=1")
    api_request(server, "GET", f"{configmaps}?watch=1&timeoutSeconds=1&{_WATCH_LIST}")
    service = {"metadata": {"name": "a"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
    api_request(server, "POST", "api/v1/namespaces/default/services?fieldValidation=Strict", service)
    api_request(server, "PUT", f"{configmaps}/a", {"metadata": {"name": "a"}, "data": {"a": "b"}})
    api_request(server, "GET", "api/v1/endpoints")
    connection = connect(server)
    connection.connect()
    connection.sock.sendall(b"nonsense\r\n\r\n")
    assert connection.sock.recv(1) == b"H"  # an answer, before the connection ends
    connection.close()
    account = f"{accounts}/default/token?fieldValidation=Ignore"
    token = json.loads(api_request(server, "POST", account, {"spec": {}})[1])["status"]["token"]
    review = {"spec": {"token": token}}
    assert (
        api_request(server, "POST", "apis/authentication.k8s.io/v1/tokenreviews?fieldValidation=Ignore", review)[0]
        == 201
    )
    backend = Backend(tmp_path_factory.mktemp("backend"))
    try:
        backend.answer = judged
        kinds = ["secrets", "serviceaccounts"]
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": kinds, "operations": ["CREATE"]}
        hook = {
            "name": "hook.example.com", "rules": [rule], "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": f"https://127.0.0.1:{backend.port}/hook", "caBundle": backend.bundle},
        }  # fmt: skip
        hooks = "apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations?fieldValidation=Ignore"
        assert api_request(server, "POST", hooks, {"metadata": {"name": "hook"}, "webhooks": [hook]})[0] == 201

        secrets = "api/v1/namespaces/default/secrets"

        def asked() -> bool:
            api_request(server, "POST", f"{secrets}?dryRun=All&fieldValidation=Ignore", {"metadata": {"name": "a"}})
            return bool(backend.requests)

        until(asked)
        refused = {"metadata": {"name": "refused"}}
        assert api_request(server, "POST", "api/v1/namespaces?fieldValidation=Ignore", refused)[0] == 201
        # its default account cannot be made, however often a controller tries it
        until(lambda: b"\nworkqueue_retries_total{" in api_request(server, "GET", "metrics")[1])
    finally:
        backend.close()
    return api_request(server, "GET", "metrics")[1].decode()


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, text: str) -> set[str]:
    """The names of samples that there are, or can be."""
    shown = set(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    server = assembled(tmp_path_factory.mktemp("data"))
    shown.update((name_of(family), family.type) for family in server.config.metrics.registry.collect())
    parts = ("bucket", "count", "sum")
    return {name for name, _ in shown} | {
        f"{name}_{part}" for name, kind in shown if kind == "histogram" for part in parts
    }


def test_metrics_are_by_name_each_one_once(text: str) -> None:
    names = re.findall(r"^# TYPE (\S+) ", text, re.M)
    assert names == sorted(set(names)) and len(names) > 140


def test_upstreams_metrics_are_there_but_for_those_that_are_known_to_be_absent(text: str) -> None:
    there = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    wanted, absent = {}, set()
    for line in LINES:
        name, kind, *mark = line.split("\t")
        if mark:
            absent.add(name)
        else:
            wanted[name] = kind
    found = {name: there.get(name) or there.get(name.removesuffix("_total")) for name in wanted}
    assert {name: kind for name, kind in found.items() if kind != wanted[name]} == {}
    assert absent & there.keys() == set(), "no longer absent: say so in the list"


def test_docs_say_why_a_metric_is_absent() -> None:
    told = (Path(__file__).parents[2] / "docs" / "compatibility.rst").read_text()
    absent = [line.split("\t")[0] for line in LINES if line.endswith("\tabsent")]
    assert absent
    assert [name for name in absent if f"``{name}``" not in told] == []


ETC = Path(__file__).parents[2] / "etc"
_WORDS = re.compile(r'"[^"]*"|\[[^]]*\]|[a-zA-Z_:][a-zA-Z0-9_:]*')
#: what is no metric in an expression: functions and words of PromQL; labels stand in braces or behind these
_PROMQL = frozenset("sum max min rate increase topk by on and histogram_quantile label_values".split())


def metrics_in(expression: str) -> set[str]:
    """The names of metrics in an expression of PromQL."""
    plain = re.sub(r"\{[^}]*\}|\b(by|on) \([^)]*\)", "", expression)
    return {word for word in _WORDS.findall(plain) if word[0] not in '"['} - _PROMQL


def test_the_dashboard_shows_what_there_is(exported: set[str]) -> None:
    dashboard = json.loads((ETC / "grafana-dashboard.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    used = set().union(*map(metrics_in, expressions))
    assert len(used) > 50
    assert used - exported == set()
    labels = [variable["query"]["query"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
    assert all(re.match(r"label_values\(kapi_reactor_stall_seconds_count", label) for label in labels)
    places = [tuple(panel["gridPos"].values()) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places)


def test_alerts_look_at_what_there_is_and_have_an_entry_in_the_runbook(exported: set[str]) -> None:
    (group,) = yaml.safe_load((ETC / "prometheus-alerts.yaml").read_text())["groups"]
    runbook = (ETC.parent / "docs" / "operations.rst").read_text()
    for rule in group["rules"]:
        assert metrics_in(rule["expr"]) - exported == set(), rule["alert"]
        assert f"``{rule['alert']}``" in runbook


def test_names_of_metrics_are_found_in_expressions() -> None:
    expression = 'sum by (le) (rate(a_bucket{x="y"}[5m])) / on (job) max(b_total) > 3 and c'
    assert metrics_in(expression) == {"a_bucket", "b_total", "c"}


def series(text: str, name: str, **labels: str) -> float:
    """The value of the one series with these labels."""
    found = [
        float(value)
        for shown, value in re.findall(rf"^{name}\{{(.*)\}} (\S+)$", text, re.M)
        if all(f'{label}="{wanted}"' in shown.split(",") for label, wanted in labels.items())
    ]
    assert len(found) == 1, (name, labels, found)
    return found[0]


def test_requests_are_counted_where_they_happen(text: str) -> None:
    configmaps = {"group": "", "resource": "configmaps"}
    assert series(text, "apiserver_request_body_size_bytes_count", verb="create", **configmaps) == 1
    assert series(text, "apiserver_cache_list_total", index="", **configmaps) == 2
    assert series(text, "apiserver_cache_list_returned_objects_total", **configmaps) == 3
    assert (
        series(text, "apiserver_watch_cache_consistent_read_total", success="true", fallback="false", **configmaps) == 2
    )
    assert series(text, "apiserver_watch_cache_read_wait_seconds_count", **configmaps) == 2
    assert series(text, "apiserver_storage_list_total", **configmaps) == 1
    assert series(text, "apiserver_storage_events_received_total", **configmaps) >= 2
    assert series(text, "apiserver_watch_events_total", version="v1", **configmaps) == 3  # two objects and a bookmark
    assert series(text, "apiserver_watch_events_sizes_count", version="v1", **configmaps) == 3
    assert (
        series(text, "apiserver_watch_list_duration_seconds_count", version="v1", scope="namespace", **configmaps) == 1
    )
    assert series(text, "field_validation_request_duration_seconds_count", field_validation="Strict") == 1
    assert series(text, "field_validation_request_duration_seconds_count", field_validation="") == 2
    assert (
        series(text, "apiserver_requested_deprecated_apis", version="v1", resource="endpoints", removed_release="") == 1
    )
    assert series(text, "apiserver_request_filter_duration_seconds_count", filter="authorization") > 5
    assert series(text, "apiserver_selfrequest_total", verb="POST", resource="namespaces", subresource="") >= 4


def test_addresses_and_ports_are_counted(text: str) -> None:
    taken = "kube_apiserver_clusterip_allocator_"
    assert series(text, taken + "allocated_ips", cidr="10.0.0.0/24") == 2
    assert series(text, taken + "available_ips", cidr="10.0.0.0/24") == 252
    assert series(text, taken + "allocation_total", cidr="10.0.0.0/24", scope="dynamic") == 1
    assert series(text, "kube_apiserver_nodeport_allocator_allocation_total", scope="dynamic") == 1
    assert "kube_apiserver_nodeport_allocator_allocated_ports 1" in text.splitlines()
    assert "kube_apiserver_nodeport_allocator_available_ports 2767" in text.splitlines()


def test_the_store_tells_how_large_it_is_from_the_first_scrape_on(first: str, text: str) -> None:
    assert series(first, "apiserver_storage_size_bytes", storage_cluster_id="redis-0") > 0
    assert series(text, "apiserver_storage_size_bytes", storage_cluster_id="redis-0") > 10_000


def test_what_the_server_is_and_does_is_counted(text: str) -> None:
    assert re.search(r'^kubernetes_build_info\{.*git_version="v1\.36\.\d+\+kapi".*\} 1$', text, re.M)
    assert 'kubernetes_feature_enabled{name="WatchList",stage="BETA"} 1' in text
    assert 'version_info{binary="1.36",component="kube",emulation="1.36",min_compat="1.35"} 1' in text
    assert re.search(r'^workqueue_adds_total\{name="[^"]+"\} [1-9]', text, re.M)
    assert re.search(r'^workqueue_work_duration_seconds_count\{name="[^"]+"\} [1-9]', text, re.M)
    assert 'aggregator_unavailable_apiservice{name="v1.apps"} 0' in text


def test_requests_to_the_store_are_counted_as_often_as_measured(server: ServerProcess) -> None:
    """Once nothing is written between one line and the other: a server writes for itself, too."""

    def samples(text: str, name: str) -> dict[tuple[str, ...], float]:
        found = re.findall(rf"^{name}\{{(.*)\}} (\S+)$", text, re.M)
        return {tuple(sorted(labels.split(","))): float(value) for labels, value in found}

    def same() -> bool:
        text = api_request(server, "GET", "metrics")[1].decode()
        totals = samples(text, "etcd_requests_total")
        return bool(totals) and totals == samples(text, "etcd_request_duration_seconds_count")

    until(same)
