"""The identity of this server towards aggregated API servers and webhooks (cmd/kube-apiserver ``--proxy-client-*``)."""

from __future__ import annotations

from kapi.options.errors import ConfigError, read_file
from kapi.options.flags import FlagSet, string, switch, value
from kapi.wire.tls.trust import Identity, authorities, identity


class AggregatorOptions(FlagSet):
    title = "Misc"

    proxy_client_cert_file = value(string, "", "Certificate file shown to aggregated API servers and webhooks.")
    proxy_client_key_file = value(string, "", "Key file of that certificate.")
    aggregator_reject_forwarding_redirect = switch(True, "Refuse redirects of aggregated API servers.")
    peer_ca_file = value(
        string, "", "CA file of the other servers of the cluster; with it, requests for what only these serve go there."
    )
    peer_advertise_ip = value(string, "", "IP address at which other servers reach this one.")
    peer_advertise_port = value(string, "", "Port at which other servers reach this one.")

    def validate(self) -> list[str]:
        if bool(self.proxy_client_cert_file) != bool(self.proxy_client_key_file):
            return ["--proxy-client-cert-file and --proxy-client-key-file must be given together"]
        if self.peer_ca_file and not self.proxy_client_cert_file:
            return ["error building peer proxy handler, proxy-cert-file not specified"]
        return []

    def peer_address(self, address: str, port: int) -> str:
        """Host and port for requests of other servers; ``address`` and ``port`` are those for clients."""
        if self.peer_advertise_ip and self.peer_advertise_port:
            host, number = self.peer_advertise_ip, self.peer_advertise_port
        else:
            host, number = address, str(port)
        return f"[{host}]:{number}" if ":" in host else f"{host}:{number}"

    def peer_authorities(self) -> bytes:
        """The PEM of the CAs of other servers.  Raises ConfigError."""
        bundle = read_file(self.peer_ca_file, "peer-ca-file")
        try:
            authorities(bundle, required=True)
        except ValueError as error:
            raise ConfigError(f"--peer-ca-file: {self.peer_ca_file}: {error}") from None
        return bundle

    def identity(self) -> Identity | None:
        """The certificate with its key, or None.  Raises ConfigError."""
        if not self.proxy_client_cert_file:
            return None
        certificate = read_file(self.proxy_client_cert_file, "proxy-client-cert-file")
        key = read_file(self.proxy_client_key_file, "proxy-client-key-file")
        try:
            return identity(certificate, key)
        except ValueError as error:
            raise ConfigError(f"--proxy-client-cert-file: {self.proxy_client_cert_file}: {error}") from None
