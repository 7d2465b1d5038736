"""``apply --prune``: deletes objects that were applied earlier and are in no manifest now (upstream: kubectl
``cmd/apply/prune.go``)."""

from __future__ import annotations

from kapi.client.discovery import APIResource
from kapi.kubectl.delete_options import delete_options, propagation
from kapi.kubectl.factory import Factory
from kapi.kubectl.info import Info, items_of
from kapi.kubectl.messages import CommandError
from kapi.kubectl.print_flags import printer_for
from kapi.kubectl.writing import LAST_APPLIED, dry_run_suffix

_DEFAULT = (
    "core/v1/ConfigMap", "core/v1/Endpoints", "core/v1/Namespace", "core/v1/PersistentVolumeClaim",
    "core/v1/PersistentVolume", "core/v1/Pod", "core/v1/ReplicationController", "core/v1/Secret", "core/v1/Service",
    "batch/v1/Job", "batch/v1/CronJob", "networking.k8s.io/v1/Ingress", "apps/v1/DaemonSet", "apps/v1/Deployment",
    "apps/v1/ReplicaSet", "apps/v1/StatefulSet",
)  # fmt: skip
_EVERYTHING = (
    "all resources selected for prune without explicitly passing --all. To prune all resources, pass the --all flag. "
    "If you did not mean to prune all resources, specify a label selector"
)


def check(factory: Factory) -> None:
    """Raises CommandError for flags that contradict each other."""
    flags = factory.flags
    if flags.get_bool("all") and flags.get_string("selector"):
        raise CommandError("cannot set --all and --selector at the same time")
    if not flags.get_bool("prune"):
        return
    if not flags.get_bool("all") and not flags.get_string("selector"):
        raise CommandError(_EVERYTHING)
    if flags.get_bool("server-side"):
        raise CommandError("--prune is in alpha and doesn't currently work on objects created by server-side apply")


class Pruner:
    """``keep`` must be called with each object that was applied; ``dry_run`` is "none", "client" or "server"."""

    def __init__(self, factory: Factory, dry_run: str, mappings: list[APIResource]) -> None:
        self._factory, self._dry_run, self._mappings = factory, dry_run, mappings
        self._policy = propagation(factory.flags)
        self._applied: set[str] = set()
        self._namespaces: dict[str, None] = {factory.namespace: None} if factory.flags.get_string("namespace") else {}

    @classmethod
    async def of_flags(cls, factory: Factory, dry_run: str) -> Pruner:
        """A Pruner for the resources of ``--prune-allowlist``.  Raises CommandError and NoMatch."""
        mappings = []
        for text in factory.flags.get_list("prune-allowlist") or _DEFAULT:
            mappings.append(await factory.mapper.kind_for(*_named(text)))
        return cls(factory, dry_run, mappings)

    def keep(self, info: Info) -> None:
        if info.mapping.namespaced:
            self._namespaces[info.namespace] = None
        self._applied.add(str(((info.object or {}).get("metadata") or {}).get("uid") or ""))

    async def run(self) -> None:
        """Prunes in the namespaces of the applied objects, then cluster-scoped objects.  Raises StatusError."""
        for namespace in self._namespaces:
            for mapping in self._mappings:
                if mapping.namespaced:
                    await self._prune(mapping, namespace)
        for mapping in self._mappings:
            if not mapping.namespaced:
                await self._prune(mapping, "")

    async def _prune(self, mapping: APIResource, namespace: str) -> None:
        client = self._factory.client(mapping.group_version)
        request = client.get().namespace(namespace).resource(mapping.name)
        page = await request.param("labelSelector", self._factory.flags.get_string("selector")).do()
        printer = printer_for(self._factory.flags, "pruned" + dry_run_suffix(self._dry_run))
        options = delete_options(self._policy, self._factory.flags.get_int("grace-period"), self._dry_run)
        for obj in items_of(page):
            metadata = obj["metadata"]
            if LAST_APPLIED not in (metadata.get("annotations") or {}) or metadata.get("uid") in self._applied:
                continue
            if self._dry_run != "client":
                await Info(client, mapping, namespace, metadata["name"]).delete(options)
            self._factory.out.write(printer.print(obj))


def _named(text: str) -> tuple[str, str]:
    """Version and kind of GROUP/VERSION/KIND.  Raises CommandError."""
    parts = text.split("/")
    if len(parts) != 3:
        raise CommandError(f"invalid GroupVersionKind format: {text}, please follow <group/version/kind>")
    group, version, kind = parts
    return (f"{group}/{version}" if group not in ("", "core") else version), kind
