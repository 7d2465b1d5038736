"""AuthorizationConfiguration: the authorizers by file (KEP-3221; upstream: apiserver ``apis/apiserver/validation``)."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import msgspec

from kapi.authorization.interface import Decision
from kapi.machinery.field import FieldError, Path, duplicate, invalid, not_supported, required
from kapi.machinery.golang import duration_text, parse_duration
from kapi.machinery.names import dns_subdomain
from kapi.machinery.shape import shape_errors
from kapi.machinery.tree import Object

if TYPE_CHECKING:
    from kapi.authorization.match_conditions import CELConditions

TYPES = ("AlwaysAllow", "AlwaysDeny", "ABAC", "Webhook", "RBAC", "Node")
VERSIONS = ("apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1")
_MAX_TIMEOUT_SECONDS = 30.0  # of a call to a webhook
_SHAPE: Object = {
    "authorizers": [
        {
            "type": str,
            "name": str,
            "webhook": {
                "authorizedTTL": str,
                "cacheAuthorizedRequests": bool,
                "unauthorizedTTL": str,
                "cacheUnauthorizedRequests": bool,
                "timeout": str,
                "subjectAccessReviewVersion": str,
                "matchConditionSubjectAccessReviewVersion": str,
                "failurePolicy": str,
                "connectionInfo": {"type": str, "kubeConfigFile": str},
                "matchConditions": [{"expression": str}],
            },
        }
    ]
}


class ConfigurationError(ValueError):
    """A file that cannot be used; one line per problem."""


class WebhookSettings(msgspec.Struct, frozen=True):
    """One authorizer of type Webhook.  Times in seconds."""

    name: str
    kubeconfig: str
    timeout: float
    version: str
    authorized_ttl: float
    unauthorized_ttl: float
    on_error: Decision
    conditions: CELConditions | None


class AuthorizerSettings(msgspec.Struct, frozen=True):
    type: str
    name: str
    webhook: WebhookSettings | None = None


def read_tree(data: bytes, kind: str, shape: Object) -> Object:
    """A configuration file of apiserver.config.k8s.io as a tree, read strictly.  Raises ConfigurationError."""
    from kapi.codecs import yaml_reading  # imported only when it is used

    try:
        tree, duplicates = yaml_reading.loads(data)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    if not isinstance(tree, dict):
        raise ConfigurationError(f"empty or no {kind}")
    if tree.get("apiVersion") not in VERSIONS or tree.get("kind") != kind:
        raise ConfigurationError(
            f"no kind {tree.get('kind')!r} is registered for version {tree.get('apiVersion')!r}: expected {kind}"
        )
    wrong, unknown = shape_errors(tree, {"apiVersion": str, "kind": str, **shape})
    if wrong:
        raise ConfigurationError("\n".join(wrong))
    if duplicates or unknown:
        raise ConfigurationError("strict decoding error: " + ", ".join([*duplicates, *unknown]))
    return tree


def load_authorization(data: bytes, *, is_file: Callable[[str], bool] | None = None) -> list[AuthorizerSettings]:
    """The authorizers in order.  Raises ConfigurationError, with all problems."""
    tree = read_tree(data, "AuthorizationConfiguration", _SHAPE)
    reader = _SettingsReader(is_file or _regular_file)
    settings = reader.read(tree.get("authorizers") or [])
    if reader.errors:
        raise ConfigurationError("\n".join(str(error) for error in reader.errors))
    return settings


def _regular_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


class _SettingsReader:
    def __init__(self, is_file: Callable[[str], bool]) -> None:
        self.errors: list[FieldError] = []
        self._is_file = is_file

    def read(self, authorizers: list[Object]) -> list[AuthorizerSettings]:
        root = Path("authorizers")
        if not authorizers:
            self.errors.append(required(root, "at least one authorization mode must be defined"))
        types: set[str] = set()
        names: set[str] = set()
        found = []
        for position, tree in enumerate(authorizers):
            path, kind, name = root.index(position), tree.get("type", ""), tree.get("name", "")
            if not kind:
                self.errors.append(required(path.child("type"), ""))
                continue
            if kind not in TYPES:
                self.errors.append(not_supported(path.child("type"), kind, sorted(TYPES)))
                continue
            if kind in types and kind != "Webhook":
                self.errors.append(duplicate(path.child("type"), kind))
                continue
            types.add(kind)
            self._name(name, names, path)
            webhook = tree.get("webhook")
            if kind == "Webhook":
                if webhook is None:
                    self.errors.append(required(path.child("webhook"), "required when type=Webhook"))
                    continue
                found.append(AuthorizerSettings(kind, name, self._webhook(webhook, name, path)))
                continue
            if webhook is not None:
                text = "may only be specified when type=Webhook"
                self.errors.append(invalid(path.child("webhook"), "non-null", text))
            found.append(AuthorizerSettings(kind, name))
        return found

    def _name(self, name: str, names: set[str], path: Path) -> None:
        at = path.child("name")
        if not name:
            self.errors.append(required(at, ""))
        elif name in names:
            self.errors.append(duplicate(at, name))
        elif dns_subdomain(name):
            self.errors.append(invalid(at, name, "authorizer name is invalid: " + ", ".join(dns_subdomain(name))))
        names.add(name)

    def _webhook(self, tree: Object, name: str, path: Path) -> WebhookSettings:
        timeout = self._seconds(tree, "timeout", path, _MAX_TIMEOUT_SECONDS, "must be > 0s and <= 30s")
        authorized = self._seconds(tree, "authorizedTTL", path, 0.0, "must be > 0s", 300.0)
        unauthorized = self._seconds(tree, "unauthorizedTTL", path, 0.0, "must be > 0s", 30.0)
        version = self._choice(tree, "subjectAccessReviewVersion", path, ("v1", "v1beta1"))
        conditions = tree.get("matchConditions") or []
        if conditions and not tree.get("matchConditionSubjectAccessReviewVersion"):
            text = "required if match conditions are specified"
            self.errors.append(required(path.child("matchConditionSubjectAccessReviewVersion"), text))
        elif tree.get("matchConditionSubjectAccessReviewVersion") not in (None, "", "v1"):
            value = tree["matchConditionSubjectAccessReviewVersion"]
            self.errors.append(not_supported(path.child("matchConditionSubjectAccessReviewVersion"), value, ("v1",)))
        policy = self._choice(tree, "failurePolicy", path, ("NoOpinion", "Deny"))
        from kapi.authorization.match_conditions import compile_conditions  # imported only when it is used

        compiled, errors = compile_conditions(conditions, path)
        self.errors += errors
        return WebhookSettings(
            name,
            self._connection(tree.get("connectionInfo") or {}, path),
            timeout,
            version,
            authorized if tree.get("cacheAuthorizedRequests", True) else 0.0,
            unauthorized if tree.get("cacheUnauthorizedRequests", True) else 0.0,
            Decision.DENY if policy == "Deny" else Decision.NO_OPINION,
            compiled,
        )

    def _seconds(
        self, tree: Object, key: str, path: Path, maximum: float, text: str, default: float | None = None
    ) -> float:
        """A duration in seconds; zero counts as absent."""
        value = tree.get(key)
        try:
            seconds = 0.0 if value is None else parse_duration(str(value))
        except ValueError as error:
            self.errors.append(invalid(path.child(key), value, str(error)))
            return 0.0
        if not seconds and default is not None:
            return default
        if not seconds:
            self.errors.append(required(path.child(key), ""))
        elif seconds < 0 or (maximum and seconds > maximum):
            self.errors.append(invalid(path.child(key), duration_text(seconds), text))
        return seconds

    def _choice(self, tree: Object, key: str, path: Path, values: Collection[str]) -> str:
        value = tree.get(key) or ""
        if not value:
            self.errors.append(required(path.child(key), ""))
        elif value not in values:
            self.errors.append(not_supported(path.child(key), value, values))
        return str(value)

    def _connection(self, tree: Object, path: Path) -> str:
        kind, file = tree.get("type") or "", tree.get("kubeConfigFile") or ""
        root = path.child("connectionInfo")
        if not kind:
            self.errors.append(required(root.child("type"), ""))
        elif kind == "InClusterConfig":
            text = "kapi does not run inside a cluster: use KubeConfigFile"
            self.errors.append(invalid(root.child("type"), kind, text))
        elif kind != "KubeConfigFile":
            self.errors.append(not_supported(root.child("type"), kind, ("InClusterConfig", "KubeConfigFile")))
        elif not file:
            self.errors.append(required(root.child("kubeConfigFile"), ""))
        elif not os.path.isabs(file):
            self.errors.append(invalid(root.child("kubeConfigFile"), file, "must be an absolute path"))
        elif not self._is_file(file):
            self.errors.append(invalid(root.child("kubeConfigFile"), file, "must be a regular file"))
        return str(file)
