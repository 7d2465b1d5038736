"""Adds to a server the hooks and routes that its program has (upstream: sample-apiserver ``pkg/apiserver``)."""

from __future__ import annotations

from functools import partial

from kapi.assembly.config import CompletedConfig
from kapi.assembly.storage import Storage
from kapi.servers.additions import HookContext
from kapi.servers.chain import ServerChain


def install_hooks(config: CompletedConfig, storage: Storage, chain: ServerChain) -> None:
    """Raises ValueError for a name that a hook has already."""
    additions, client = config.given.additions, storage.registry.client

    def context(name: str) -> HookContext:
        return HookContext(client.named(name), config.reactor)

    for name, start in additions.post_start_hooks.items():
        chain.aggregator.add_post_start_hook(name, partial(start, context(name)))
    for name, stop in additions.pre_shutdown_hooks.items():
        chain.aggregator.add_pre_shutdown_hook(name, partial(stop, context(name)))


def install_added_routes(config: CompletedConfig, chain: ServerChain) -> None:
    """Adds routes to the outermost server.  Raises ValueError for a path that a server of the chain has already."""
    for part in config.given.additions.routes:
        for url in part.app.urls:
            if any(url in app.served for app in chain.aggregator.apps()):
                raise ValueError(f"{url} is served already")
        chain.aggregator.app.include(part)
