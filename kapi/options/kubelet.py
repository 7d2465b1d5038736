"""Flags for connections to kubelets (cmd/kube-apiserver ``--kubelet-*``)."""

from __future__ import annotations

from kapi.endpoints.connect.kubelet import ADDRESS_TYPES, KubeletSettings
from kapi.endpoints.connect.transport import TLS, UNVERIFIED
from kapi.options.errors import ConfigError, read_file
from kapi.options.flags import FlagSet, duration, integer, string, strings, value


class KubeletOptions(FlagSet):
    title = "Misc"

    kubelet_certificate_authority = value(string, "", "CA file for kubelets; without it they are not verified.")
    kubelet_client_certificate = value(string, "", "Certificate file shown to kubelets.")
    kubelet_client_key = value(string, "", "Key file of that certificate.")
    kubelet_port = value(integer, 10250, "Port of kubelets that do not tell theirs.", group="Kapi")
    kubelet_preferred_address_types = strings(ADDRESS_TYPES, "Node address types, the preferred first.")
    kubelet_timeout = value(duration, 5.0, "How long connecting to a kubelet may take.")

    def validate(self) -> list[str]:
        errors = []
        if bool(self.kubelet_client_certificate) != bool(self.kubelet_client_key):
            errors.append("--kubelet-client-certificate and --kubelet-client-key must be given together")
        if not 0 < self.kubelet_port < 65536:
            errors.append("--kubelet-port must be between 1 and 65535")
        if self.kubelet_timeout <= 0:
            errors.append("--kubelet-timeout must be positive")
        return errors

    def settings(self) -> KubeletSettings:
        """The settings, with the contents of the files.  Raises ConfigError."""
        return KubeletSettings(
            self.tls(), self.kubelet_port, self.kubelet_preferred_address_types, self.kubelet_timeout
        )

    def tls(self) -> TLS:
        """The TLS settings from the current files.  Raises ConfigError."""

        def content(flag: str) -> bytes:
            path = getattr(self, flag.replace("-", "_"))
            return read_file(path, flag) if path else b""

        tls = TLS(
            content("kubelet-certificate-authority"),
            content("kubelet-client-certificate"),
            content("kubelet-client-key"),
        )
        if tls == UNVERIFIED:  # no file was given
            return tls
        try:
            tls.creator("kubelet")
        except ValueError as error:
            raise ConfigError(f"--kubelet-client-certificate: {error}") from None
        return tls
