"""The special endpoints (exec, scale, eviction ...) by the handler name in a catalogue row."""

from __future__ import annotations

from kapi.endpoints.componentstatuses import ComponentStatuses
from kapi.endpoints.connect.kubelet import Kubelets, KubeletSettings
from kapi.endpoints.connect.pods import Log, Streams
from kapi.endpoints.connect.proxy import Proxy
from kapi.endpoints.connect.transport import Transport
from kapi.endpoints.dispatch import Endpoint
from kapi.endpoints.pods.binding import Binding
from kapi.endpoints.pods.eviction import Eviction
from kapi.endpoints.scale import scale
from kapi.machinery.gvk import GroupResource
from kapi.process.reactor import Reactor
from kapi.registry.registry import Registry
from kapi.wire.egress import DIRECT, Egress


def built_in_handlers(
    registry: Registry, reactor: Reactor, kubelet: KubeletSettings, egress: Egress = DIRECT
) -> dict[str, Endpoint]:
    """Endpoints by name.  ``registry`` must already have the built-in resources."""
    kubelets = Kubelets(registry.stores.get(GroupResource("", "nodes")), kubelet)
    transport = Transport(reactor, kubelet.timeout, kubelet.bytes_per_second, egress)
    found: dict[str, Endpoint] = {
        "attach": Streams("attach", "PodAttachOptions", kubelets, transport),
        "exec": Streams("exec", "PodExecOptions", kubelets, transport),
        "log": Log(kubelets, transport),
        "portforward": Streams("portForward", "PodPortForwardOptions", kubelets, transport),
        "proxy": Proxy(kubelets, transport),
        "scale": scale,
        "componentstatuses": ComponentStatuses(reactor, [part.store for part in registry.caches.parts]),
    }
    pods = registry.stores.get(GroupResource("", "pods"))
    if pods is not None:
        found["binding"] = found["bindings"] = Binding(pods)
        found["eviction"] = Eviction(pods, registry.client.named("kube-apiserver"))
    return found
