"""Client certificates of this server, reloaded when their files change.

Upstream: hook ``aggregator-reload-proxy-client-cert``, client-go ``transport/cert_rotation.go``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from twisted.logger import Logger

from kapi.assembly.config import CompletedConfig
from kapi.endpoints.connect.kubelet import KubeletSettings
from kapi.endpoints.connect.transport import TLS
from kapi.options.errors import ConfigError
from kapi.wire.tls.trust import Identity

log = Logger()
T = TypeVar("T")


class ReloadedFiles(Generic[T]):
    """The value that ``read`` last returned without an error.  ``take`` is called with each new value."""

    def __init__(self, read: Callable[[], T], take: Callable[[T], None] = lambda _: None) -> None:
        self._read, self._take = read, take
        self._problem = ""
        self.value = read()

    def __call__(self) -> T:
        return self.value

    def reload(self) -> None:
        """Reads again.  Invalid files, such as files that are being replaced, change nothing; the error is logged once."""
        try:
            self.value = self._read()
        except ConfigError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                log.error("Not reloading {error}", error=self._problem)
            return
        self._problem = ""
        self._take(self.value)


def kubelet_settings(config: CompletedConfig) -> KubeletSettings:
    """The settings of connections to kubelets, whose TLS files are reloaded.  Raises ConfigError."""
    kubelet = config.options.kubelet
    settings = kubelet.settings()
    settings.bytes_per_second = config.options.control_plane.max_connection_bytes_per_sec

    def take(tls: TLS) -> None:
        settings.tls = tls

    config.reloaders.add(ReloadedFiles(kubelet.tls, take).reload)
    return settings


def proxy_identity(config: CompletedConfig) -> Callable[[], Identity | None]:
    """Returns the current certificate for aggregated API servers and webhooks.  Raises ConfigError."""
    identity = ReloadedFiles(config.options.aggregator.identity)
    config.reloaders.add(identity.reload)
    return identity
