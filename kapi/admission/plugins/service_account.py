"""ServiceAccount: pods run as an account of their namespace and get its token (upstream: plugin/pkg/admission/serviceaccount)."""

from __future__ import annotations

import random
from collections.abc import Awaitable

from twisted.internet.task import deferLater

from kapi.admission.initializer import InitializedPlugin
from kapi.admission.interface import CREATE, UPDATE, Attributes, denied
from kapi.authorization.node.references import pod_secrets
from kapi.machinery.each import elements
from kapi.machinery.names import path_segment
from kapi.machinery.status import generic
from kapi.machinery.tree import Object

_MIRROR = "kubernetes.io/config.mirror"
_ENFORCE = "kubernetes.io/enforce-mountable-secrets"
_VOLUME = "kube-api-access"
_MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_MAX_ATTEMPTS = 10  # to read the default account, which a controller may be creating


class ServiceAccount(InitializedPlugin):
    operations = frozenset({CREATE, UPDATE})
    resources = frozenset({"pods"})

    def _applies_to(self, attributes: Attributes) -> bool:
        resource = attributes.resource
        if resource.resource != "pods" or resource.group or attributes.obj is None:
            return False
        return attributes.subresource in ("", "ephemeralcontainers")

    def admit(self, attributes: Attributes) -> Awaitable[None] | None:
        if not self._applies_to(attributes) or attributes.operation != CREATE or attributes.subresource:
            return None
        assert attributes.obj is not None
        if _MIRROR in (attributes.obj["metadata"].get("annotations") or {}):
            return self.validate(attributes)
        spec = attributes.obj.setdefault("spec", {})
        name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = self.initializer.lister("", "serviceaccounts").get(attributes.namespace, name)
        if account is None:
            return self._admit_later(attributes, spec, name)
        self._admit(attributes, spec, account)
        return None

    async def _admit_later(self, attributes: Attributes, spec: Object, name: str) -> None:
        self._admit(attributes, spec, await self._account(attributes, name))

    def _admit(self, attributes: Attributes, spec: Object, account: Object) -> None:
        automount = spec.get("automountServiceAccountToken")
        if automount is None:
            automount = account.get("automountServiceAccountToken")
        if automount is None or automount:
            _mount_token(spec)
        if not spec.get("imagePullSecrets"):
            pulls = [{"name": secret["name"]} for secret in elements(account, "imagePullSecrets") if secret.get("name")]
            if pulls:
                spec["imagePullSecrets"] = pulls
        self._check(attributes, spec, account)

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        if not self._applies_to(attributes):
            return None
        assert attributes.obj is not None
        spec = attributes.obj.get("spec") or {}
        ephemeral = attributes.operation == UPDATE and attributes.subresource == "ephemeralcontainers"
        if attributes.operation != CREATE and not ephemeral:
            return None
        if not ephemeral and _MIRROR in (attributes.obj["metadata"].get("annotations") or {}):
            _check_mirror(attributes, spec)
            return None
        name = spec.get("serviceAccountName") or ""
        if not name:
            pod = attributes.obj["metadata"].get("name", "")
            raise denied(attributes, f"no service account specified for pod {attributes.namespace}/{pod}")
        account = self.initializer.lister("", "serviceaccounts").get(attributes.namespace, name)
        if account is None:
            return self._validate_later(attributes, spec, name)
        self._check(attributes, spec, account)
        return None

    async def _validate_later(self, attributes: Attributes, spec: Object, name: str) -> None:
        self._check(attributes, spec, await self._account(attributes, name))

    async def _account(self, attributes: Attributes, name: str) -> Object:
        """The account; waits for the default account for one to two seconds.  Raises Forbidden."""
        pause = 0.1 + random.random() / 10
        problems = path_segment(name)
        if problems:
            why = f'invalid resource name "{name}": [{", ".join(problems)}]'
            raise denied(attributes, f"error looking up service account {attributes.namespace}/{name}: {why}")
        reactor = self.initializer.reactor
        attempts = _MAX_ATTEMPTS if name == "default" and reactor is not None else 1
        for attempt in range(attempts):
            if attempt:
                assert reactor is not None
                await deferLater(reactor, pause)
            found = await self.initializer.live("", "serviceaccounts", name, attributes.namespace)
            if found is not None:
                return found
        why = f'error looking up service account {attributes.namespace}/{name}: serviceaccount "{name}" not found'
        raise denied(attributes, why)

    def _check(self, attributes: Attributes, spec: Object, account: Object) -> None:
        """Refuses secrets that the account does not list, if the account requires that."""
        annotations = account["metadata"].get("annotations") or {}
        if annotations.get(_ENFORCE, "") not in _TRUE:
            return
        if attributes.subresource == "ephemeralcontainers":
            problem = _unlisted_in(spec.get("ephemeralContainers"), "ephemeral container", account)
            if problem:
                raise generic(problem)  # upstream's error has no status
        else:
            problem = _unlisted(spec, account)
        if problem:
            raise denied(attributes, problem)


def _mount_token(spec: Object) -> None:
    """Mounts a projected token into every container without another mount at the usual path."""
    volumes = spec.get("volumes") or []
    given = next(
        (volume["name"] for volume in elements(volumes) if volume.get("name", "").startswith(_VOLUME + "-")), ""
    )
    name = given or f"{_VOLUME}-" + "".join(random.choices(_LETTERS, k=5))
    used = False
    for field in ("initContainers", "containers"):
        for container in elements(spec, field):
            mounts = container.get("volumeMounts") or []
            if any(mount.get("mountPath") == _MOUNT for mount in elements(mounts)):
                continue
            container["volumeMounts"] = [*mounts, {"name": name, "readOnly": True, "mountPath": _MOUNT}]
            used = True
    if used and not given:
        spec["volumes"] = [*volumes, {"name": name, "projected": _token_source()}]


def _token_source() -> Object:
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [
                        {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
                    ]
                }
            },
        ],
        "defaultMode": 420,
    }


def _check_mirror(attributes: Attributes, spec: Object) -> None:
    """Refuses API secrets in a pod that mirrors a static pod."""
    if spec.get("serviceAccountName"):
        raise denied(attributes, "a mirror pod may not reference service accounts")
    if pod_secrets({"spec": spec}):
        raise denied(attributes, "a mirror pod may not reference secrets")
    for volume in elements(spec, "volumes"):
        for source in elements(volume, "projected", "sources"):
            if source.get("serviceAccountToken") is not None:
                raise denied(attributes, "a mirror pod may not use ServiceAccountToken volume projections")


def _unlisted(spec: Object, account: Object) -> str:
    """The first use of a secret that the account does not list, in words; "" when there is none."""
    name = account["metadata"]["name"]
    listed = {secret.get("name") for secret in elements(account, "secrets")}
    for volume in elements(spec, "volumes"):
        secret = volume.get("secret")
        if secret is not None and secret.get("secretName") not in listed:
            return (
                f'volume with secret.secretName="{secret.get("secretName", "")}" is not allowed '
                f"because service account {name} does not reference that secret"
            )
    for field, called in (("initContainers", "init container"), ("containers", "container")):
        problem = _unlisted_in(spec.get(field), called, account)
        if problem:
            return problem
    pulls = {secret.get("name") for secret in elements(account, "imagePullSecrets")}
    for i, secret in enumerate(elements(spec, "imagePullSecrets")):
        if secret.get("name") not in pulls:
            return (
                f'imagePullSecrets[{i}].name="{secret.get("name", "")}" is not allowed '
                f"because service account {name} does not reference that imagePullSecret"
            )
    return ""


def _unlisted_in(containers: list[Object] | None, called: str, account: Object) -> str:
    listed = {secret.get("name") for secret in elements(account, "secrets")}
    end = f"is not allowed because service account {account['metadata']['name']} does not reference that secret"
    for container in elements(containers):
        start = f"{called} {container.get('name', '')} with"
        for variable in elements(container, "env"):
            reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
            if reference is not None and reference.get("name") not in listed:
                secret = reference.get("name", "")
                return f'{start} envVar {variable.get("name", "")} referencing secret.secretName="{secret}" {end}'
        for source in elements(container, "envFrom"):
            reference = source.get("secretRef")
            if reference is not None and reference.get("name") not in listed:
                return f'{start} envFrom referencing secret.secretName="{reference.get("name", "")}" {end}'
    return ""
