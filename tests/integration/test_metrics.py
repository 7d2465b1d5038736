"""/metrics of a running server against upstream's names and types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.server_process import ServerProcess, api_request

LINES = (Path(__file__).parents[1] / "server" / "upstream_metrics.txt").read_text().splitlines()[1:]


@pytest.fixture(scope="module")
def text() -> Iterator[str]:
    server = ServerProcess().start()
    try:
        api_request(server, "POST", "api/v1/namespaces/default/configmaps", {"metadata": {"name": "a"}})
        api_request(server, "GET", "api/v1/namespaces/default/configmaps")
        yield api_request(server, "GET", "metrics")[1].decode()
    finally:
        server.stop()


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


def test_what_the_server_is_and_does_is_counted(text: str) -> None:
    assert re.search(r'^kubernetes_build_info\{.*git_version="v1\.36\.\d+\+kapi".*\} 1\.0$', text, re.M)
    assert 'kubernetes_feature_enabled{name="WatchList",stage="BETA"} 1.0' in text
    assert 'version_info{binary="1.36",component="kube",emulation="1.36",min_compat="1.35"} 1.0' in text
    assert re.search(r'^workqueue_adds_total\{name="[^"]+"\} [1-9]', text, re.M)
    assert re.search(r'^workqueue_work_duration_seconds_count\{name="[^"]+"\} [1-9]', text, re.M)
    assert 'aggregator_unavailable_apiservice{name="v1.apps"} 0.0' in text
    totals = {labels: float(value) for labels, value in re.findall(r"^etcd_requests_total\{(.*)\} (\S+)$", text, re.M)}
    counts = {
        labels: float(value)
        for labels, value in re.findall(r"^etcd_request_duration_seconds_count\{(.*)\} (\S+)$", text, re.M)
    }

    def key(labels: str) -> tuple[str, ...]:
        return tuple(sorted(labels.split(",")))

    assert {key(labels): value for labels, value in totals.items()} == {
        key(labels): value for labels, value in counts.items()
    }
