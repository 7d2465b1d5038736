"""Encryption at rest while the server runs: its metrics, and the reload of its configuration.

Upstream: apiserver ``server/options/encryptionconfig/controller``.
"""

from __future__ import annotations

from twisted.logger import Logger

from kapi.assembly.config import CompletedConfig
from kapi.options.errors import ConfigError
from kapi.options.reloads import Reloads

_log = Logger()


def install_encryption(config: CompletedConfig) -> None:
    """Registers metrics and the reload; does nothing without ``--encryption-provider-config``."""
    options, stores = config.options, config.given.stores
    encryptions = [store.encryption for store in stores if store.encryption is not None]
    if not encryptions:
        return
    from kapi.store.encryption.configuration import load_encryption  # imported only when it is used

    encryptions[0].register(config.metrics.registry)  # the stores share their counters
    if not options.storage.encryption_provider_config_automatic_reload:
        return
    reloads = Reloads("encryption", config.metrics.registry)
    seen = options.storage.encryption()[1]
    reloads.applied(seen)

    def reload() -> None:
        """Applies a changed file.  An invalid file changes nothing, and is logged each time until it is corrected."""
        nonlocal seen
        try:
            rules, content = options.storage.encryption()
        except ConfigError as error:
            reloads.failed()
            _log.error("Not reloading the encryption configuration: {error}", error=str(error))
            return
        if content != seen:
            for encryption in encryptions:
                encryption.replace(rules if encryption is encryptions[0] else load_encryption(content))
            seen = content
            reloads.succeeded(content)
            _log.info("Reloaded the encryption configuration")

    config.reloaders.add(reload)
