"""The identity of this server towards aggregated API servers and webhooks (cmd/kube-apiserver ``--proxy-client-*``)."""

from __future__ import annotations

from kapi.options.errors import ConfigError, read_file
from kapi.options.flags import FlagSet, string, switch, value
from kapi.wire.tls.trust import Identity, identity


class AggregatorOptions(FlagSet):
    title = "Misc"

    proxy_client_cert_file = value(string, "", "Certificate file shown to aggregated API servers and webhooks.")
    proxy_client_key_file = value(string, "", "Key file of that certificate.")
    aggregator_reject_forwarding_redirect = switch(True, "Refuse redirects of aggregated API servers.")

    def add(self) -> None:
        alone = "a server asks no other server of the cluster"
        self.declare("peer-ca-file", value(string, "", "CA file of the other servers.", inert=alone))
        self.declare(
            "peer-advertise-ip", value(string, "", "Address at which other servers reach this one.", inert=alone)
        )
        self.declare(
            "peer-advertise-port", value(string, "", "Port at which other servers reach this one.", inert=alone)
        )

    def validate(self) -> list[str]:
        if bool(self.proxy_client_cert_file) != bool(self.proxy_client_key_file):
            return ["--proxy-client-cert-file and --proxy-client-key-file must be given together"]
        return []

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
