"""A Pod whose address is this machine: what is proxied to it reaches a port of the test."""

from __future__ import annotations

from kapi.testing.memory_api import MemoryAPI

PODS = "/api/v1/namespaces/default/pods"


def store_pod(api: MemoryAPI) -> None:
    """Stores the Pod ``p``, running at 127.0.0.1."""
    spec = {"containers": [{"name": "c", "image": "i"}]}
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "spec": spec}
    assert api.ask("POST", PODS, pod).code == 201
    status = {"status": {"podIPs": [{"ip": "127.0.0.1"}], "podIP": "127.0.0.1"}}
    assert api.ask("PATCH", f"{PODS}/p/status", status, type="application/merge-patch+json").code == 200
