"""``Any`` stands only where something without types is met, and each file that needs it says here what that is."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
TREES = "JSON trees, whose schema says what they hold"
TWISTED = "Twisted: methods and attributes without annotations, transports of any kind"
OPENSSL = "pyOpenSSL and cryptography: keys, contexts and trust roots of many classes"
COROUTINES = "what a coroutine yields, and what a greenlet hands on"
COMPARISON = "whatever can be compared or emptied: the standard library has no public type for it"
EDGES = {
    "authentication/certificates.py": OPENSSL,
    "authentication/service_account/signed.py": "PyJWT",
    "cel/library/strings.py": "google-re2",
    "cel/standard.py": "google-re2",
    "cel/types.py": "values of CEL, which the checker has typed",
    "codecs/json_pieces.py": "orjson",
    "codecs/json_reading.py": "json's hooks",
    "codecs/yaml_reading.py": "PyYAML",
    "codecs/yaml_writing.py": "PyYAML",
    "dropin/etcd.py": TWISTED,
    "endpoints/tunnel.py": TWISTED,
    "filters/priority_and_fairness.py": TWISTED,
    "kubectl/remote_streams.py": "standard input, with or without a buffer",
    "machinery/freeing.py": COMPARISON,
    "machinery/regexps.py": "google-re2",
    "machinery/sorting.py": COMPARISON,
    "machinery/tree.py": TREES,
    "observability/profiling.py": TWISTED,
    "observability/stalls.py": TWISTED,
    "process/driver.py": COROUTINES,
    "process/reactor.py": TWISTED,
    "process/slices.py": COROUTINES,
    "request/departure.py": TWISTED,
    "request/http.py": TWISTED,
    "schema/derive.py": TREES,
    "schema/protobuf_wire.py": TREES,
    "serving/listen.py": TWISTED,
    "serving/mounted.py": TWISTED,
    "serving/request.py": TWISTED,
    "serving/routing.py": "Klein and werkzeug",
    "serving/run.py": COROUTINES,
    "serving/site.py": TWISTED,
    "serving/tls_connection.py": TWISTED,
    "store/address.py": TWISTED,
    "store/entries.py": "hiredis",
    "store/embedded.py": TWISTED,
    "store/encryption/providers.py": "PyNaCl",
    "testbed/moved_clock.py": TWISTED,
    "testing/memory_api.py": COROUTINES,
    "testing/pytest_plugin.py": "pytest: what a marker or an option holds",
    "twistd.py": TWISTED,
    "watchcache/sorted_entries.py": "sortedcontainers: the inner lists of a sorted list, which its stubs leave out",
    "wire/collected.py": TWISTED,
    "wire/dial.py": TWISTED,
    "wire/name_lookups.py": TWISTED,
    "wire/plugin_calls.py": "grpc",
    "wire/tls/client.py": TWISTED,
    "wire/tls/policy.py": OPENSSL,
    "wire/tls/server.py": OPENSSL,
    "wire/tls/trust.py": OPENSSL,
    "wire/tls/writing.py": TWISTED,
    "wire/websocket.py": "wsproto: the payload of a frame of any kind",
    "workers/supervisor.py": TWISTED,
    "workers/worker.py": TWISTED,
}


def _uses(path: Path) -> int:
    text = path.read_text()
    if "Any" not in text:
        return 0
    return sum(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(ast.parse(text)))


def test_any_stands_only_at_edges_to_what_has_no_types() -> None:
    found = {str(path.relative_to(ROOT / "kapi")): _uses(path) for path in (ROOT / "kapi").rglob("*.py")}
    used = {name: count for name, count in found.items() if count}
    assert sorted(used) == sorted(EDGES)
    assert sum(used.values()) <= 120
