"""Miscellaneous flags of the control plane (upstream: cmd/kube-apiserver ``options/options.go``, Misc)."""

from __future__ import annotations

import ipaddress

from kapi.controllers.leaderelection import Timing
from kapi.options.flags import FlagSet, duration, integer, port_range, string, switch, value

_RANGE, _PORTS = "10.0.0.0/24", (30000, 32767)
_ELECTION = "Of the servers on a store, one of which elects leaders from LeaseCandidates."


class ControlPlaneOptions(FlagSet):
    title = "Misc"

    allow_privileged = switch(False, "Allow privileged containers.")
    service_cluster_ip_range = value(string, _RANGE, "CIDR of service addresses; two for dual stack.")
    endpoint_reconciler_type = value(
        string,
        "lease",
        "How this server publishes its address as the kubernetes service's: lease, or none; master-count is lease.",
    )
    apiserver_count = value(
        integer,
        1,
        "Number of servers.",
        deprecated="apiserver-count is deprecated and will be removed in a future version.",
    )
    enable_aggregator_routing = switch(
        False,
        "Reach services of webhooks and aggregated servers at all of their ready endpoints, instead of at the cluster IP.",
    )
    enable_logs_handler = switch(False, "Serve the files in /var/log under /logs; deprecated.")
    max_connection_bytes_per_sec = value(
        integer,
        0,
        "Most bytes a second, each way, of a connection to a container (exec, attach, port-forward, proxies that "
        "upgrade); 0 for no limit.",
    )
    service_node_port_range = value(port_range, _PORTS, "Ports reserved for NodePort services.")
    kubernetes_service_node_port = value(integer, 0, "Node port of the kubernetes service; 0: ClusterIP.")
    coordinated_leadership_lease_duration = value(duration, 15.0, _ELECTION)
    coordinated_leadership_renew_deadline = value(duration, 10.0, _ELECTION)
    coordinated_leadership_retry_period = value(duration, 2.0, _ELECTION)

    def complete(self) -> None:
        self.coordination = Timing(
            self.coordinated_leadership_lease_duration,
            self.coordinated_leadership_renew_deadline,
            self.coordinated_leadership_retry_period,
        )
        if not any(self.service_node_port_range):
            self.service_node_port_range = _PORTS
        self.service_ranges: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        self.range_errors: list[str] = []
        texts = (self.service_cluster_ip_range or _RANGE).split(",")
        for i, text in enumerate(texts[:2]):
            try:
                self.service_ranges.append(ipaddress.ip_network(text.strip(), strict=False))
            except ValueError:
                self.range_errors.append(f"service-cluster-ip-range[{i}] is not {'an ip net' if i else 'a valid cidr'}")
        if len(texts) > 2:
            self.range_errors.append("--service-cluster-ip-range must not contain more than two entries")

    def validate(self) -> list[str]:
        errors = [*self.range_errors, *self.coordination.problems("coordinated-leadership")]
        if self.max_connection_bytes_per_sec < 0:
            errors.append("--max-connection-bytes-per-sec can not be negative value")
        if self.endpoint_reconciler_type not in ("lease", "none", "master-count"):
            errors.append(
                f"--endpoint-reconciler-type {self.endpoint_reconciler_type!r}: one of lease, none, master-count"
            )
        if self.apiserver_count <= 0:
            errors.append(f"--apiserver-count should be a positive number, but value '{self.apiserver_count}' provided")
        ranges = self.service_ranges
        if len(ranges) == 2 and ranges[0].version == ranges[1].version:
            errors.append(
                "--service-cluster-ip-range[0] and --service-cluster-ip-range[1] must be of different IP family"
            )
        for network in ranges[:1]:
            if network.num_addresses < 8:
                errors.append(
                    "error determining service IP ranges for primary service cidr: the service cluster IP range must be at "
                    "least 8 IP addresses"
                )
        low, high = self.service_node_port_range
        port = self.kubernetes_service_node_port
        if not 0 <= port <= 65535:
            errors.append(
                f"--kubernetes-service-node-port {port} must be between 0 and 65535, inclusive. If 0, the Kubernetes master "
                "service will be of type ClusterIP"
            )
        if port > 0 and not low <= port <= high:
            errors.append(f"kubernetes service port range {low}-{high} doesn't contain {port}")
        return errors

    @property
    def first_service_address(self) -> str:
        """The address of the ``kubernetes`` service."""
        return str(self.service_ranges[0].network_address + 1)
