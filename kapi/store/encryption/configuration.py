"""EncryptionConfiguration: the providers of each resource.

Upstream: ``apis/apiserver/validation/validation_encryption.go``, ``server/options/encryptionconfig/config.go``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kapi.codecs import yaml_reading
from kapi.machinery.field import format_value
from kapi.machinery.golang import base64_bytes, parse_duration
from kapi.machinery.shape import shape_errors
from kapi.machinery.tree import Object, Tree
from kapi.store.encryption.kms import Kms
from kapi.store.encryption.providers import AesCbc, AesGcm, Identity, Provider, SecretBox
from kapi.wire.plugin_calls import require

_GROUP = "apiserver.config.k8s.io"
_AES = (16, 24, 32)
_CIPHERS: dict[str, tuple[Callable[[str, bytes], Provider], tuple[int, ...]]] = {
    "aescbc": (AesCbc, _AES),
    "aesgcm": (AesGcm, _AES),
    "secretbox": (SecretBox, (32,)),
}
_KEYS: Object = {"keys": [{"name": str, "secret": str}]}
_SHAPE: Object = {
    "apiVersion": str,
    "kind": str,
    "resources": [
        {
            "resources": [str],
            "providers": [
                {
                    **dict.fromkeys(_CIPHERS, _KEYS),
                    "identity": {},
                    "kms": {"apiVersion": str, "name": str, "endpoint": str, "timeout": str, "cachesize": int},
                }
            ],
        }
    ],
}
_NOT_STORED = ("apiserveripinfo", "serviceipallocations", "servicenodeportallocations")


class EncryptionError(ValueError):
    """The errors of a file, one on each line."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The providers of some resources."""

    resources: frozenset[tuple[str, str]]  # pairs of group and resource, "*" for all
    providers: tuple[Provider, ...]


def providers_of(rules: Sequence[Rule], group: str, resource: str) -> tuple[Provider, ...]:
    """The providers of a resource: those of all rules with its name, else with its group, else with all resources.

    The first provider encrypts, all can decrypt.
    """
    for name in ((group, resource), (group, "*"), ("*", "*")):
        found = tuple(one for rule in rules if name in rule.resources for one in rule.providers)
        if found:
            return found
    return ()


def load_encryption(content: bytes) -> list[Rule]:
    """The rules of a file, in order.  Raises EncryptionError."""
    try:
        tree, duplicates = yaml_reading.loads(content)
    except ValueError as error:
        raise EncryptionError(f"not YAML: {error}") from None
    if duplicates:
        raise EncryptionError("strict decoding error: " + ", ".join(duplicates))
    reader = _Reader()
    rules = reader.read(tree)
    if reader.errors:
        raise EncryptionError("\n".join(reader.errors))
    return rules


def _shown(name: tuple[str, str]) -> str:
    group, resource = name
    return f"{resource}.{group}" if group or resource == "*" else resource


class _Reader:
    """Reads a file and collects its errors."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.names: set[str] = set()  # names of KMS providers

    def read(self, tree: object) -> list[Rule]:
        if not isinstance(tree, dict) or (tree.get("apiVersion"), tree.get("kind")) not in (
            (f"{_GROUP}/v1", "EncryptionConfiguration"),
            ("v1", "EncryptionConfig"),
        ):
            raise EncryptionError(f'want kind EncryptionConfiguration of "{_GROUP}/v1"')
        wrong, unknown = shape_errors(tree, _SHAPE)
        if wrong or unknown:
            raise EncryptionError("strict decoding error: " + ", ".join([*wrong, *unknown]))
        found = []
        named: list[tuple[str, str]] = []
        for position, entry in enumerate(self._list("resources", tree.get("resources"))):
            at = f"resources[{position}]"
            names = self._resources(f"{at}.resources", entry.get("resources"))
            named += names
            found.append(Rule(frozenset(names), self._providers(f"{at}.providers", entry.get("providers"))))
        if not self.errors:
            self._unmasked(named)
        return found

    def _unmasked(self, named: list[tuple[str, str]]) -> None:
        """Refuses a resource for which an earlier rule with a star has providers."""
        earlier: set[tuple[str, str]] = set()
        for name in named:
            mask = next((mask for mask in ((name[0], "*"), ("*", "*")) if mask in earlier), None)
            if mask is not None:
                self.errors.append(f'resource "{_shown(name)}" is masked by earlier rule "{_shown(mask)}"')
                return
            earlier.add(name)

    def _list(self, at: str, value: object) -> Sequence[Tree]:
        if not isinstance(value, list) or not value:
            self.errors.append(f"{at}: Required value: at least one {at} is required")
            return ()
        return value

    def _resources(self, at: str, value: object) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for position, name in enumerate(self._list(at, value)):
            problem = ""
            resource, _, group = str(name).partition(".")
            if name == "*":
                problem = "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"
            elif str(name) != str(name).lower():
                problem = "resource name should not contain capital letters"
            elif resource in _NOT_STORED:
                problem = "resources which do not have REST API/s cannot be encrypted"
            elif group == "events.k8s.io":
                problem = (
                    "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in "
                    "the config file"
                )
            elif group == "extensions":
                problem = "'extensions' group has been removed and cannot be used for encryption"
            elif group == "*" and resource != "*":
                problem = "encrypting the same resource across groups is not supported"
            if problem:
                self.errors.append(f'{at}[{position}]: Invalid value: "{name}": {problem}')
            found.append((group, resource))
        self._apart(f"{at}: Invalid value: {format_value(value)}", found)
        return found

    def _apart(self, start: str, found: list[tuple[str, str]]) -> None:
        """Refuses a resource that is named twice, even by a star."""
        if len(set(found)) < len(found):
            self.errors.append(f"{start}: the same resource cannot be specified multiple times")
        groups = Counter(group for group, _ in found)
        starred = any(resource == "*" and groups[group] > 1 for group, resource in found)
        if starred or len(found) > 1 and ("*", "*") in found:
            self.errors.append(
                f"{start}: using overlapping resources such as 'secrets' and '*.' in the same resource list is not "
                "allowed as they will be masked"
            )

    def _providers(self, at: str, value: object) -> tuple[Provider, ...]:
        found: list[Provider] = []
        for position, entry in enumerate(self._list(at, value)):
            here = f"{at}[{position}]"
            if len(entry) != 1:
                many = "more than one provider specified in a single element, should split into different list elements"
                none = "provider does not contain any of the expected providers"
                self.errors.append(f"{here}: Invalid value: {many if entry else none}")
                continue
            ((kind, settings),) = entry.items()
            if kind == "identity":
                found.append(Identity())
            elif kind == "kms":
                found += self._kms(f"{here}.kms", settings or {})
            else:
                found += self._keys(f"{here}.{kind}", kind, settings or {})
        return tuple(found)

    def _kms(self, at: str, settings: Object) -> list[Provider]:
        before = len(self.errors)
        name, version = str(settings.get("name") or ""), settings.get("apiVersion", "v1")
        endpoint, given = str(settings.get("endpoint") or ""), settings.get("timeout", "3s")
        if version not in ("v1", "v2"):
            self._invalid(
                f"{at}.apiVersion", version, "unsupported apiVersion for KMS provider, only v1 and v2 are supported"
            )
        elif version == "v1":
            self.errors.append(
                f"{at}: KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead."
            )
        if not name:
            self.errors.append(f"{at}.name: Required value: name is a mandatory field for a provider")
        elif ":" in name:
            self._invalid(f"{at}.name", name, f"invalid KMS provider name {name}, must not contain ':'")
        elif name in self.names:
            self._invalid(f"{at}.name", name, f"duplicate KMS provider name {name}, names must be unique")
        self.names.add(name)
        try:
            timeout = parse_duration(str(given))
        except ValueError:
            timeout = 0.0
        if timeout <= 0:
            self._invalid(f"{at}.timeout", given, "timeout should be a positive value")
        scheme, _, path = endpoint.partition("://")
        if not endpoint:
            self._invalid(f"{at}.endpoint", "", "endpoint is a mandatory field for a kms")
        elif scheme != "unix":
            self._invalid(
                f"{at}.endpoint", endpoint, f'unsupported scheme "{scheme}" for KMS provider, only unix is supported'
            )
        if version != "v1" and settings.get("cachesize") is not None:
            self._invalid(f"{at}.cachesize", settings["cachesize"], "cachesize is not supported in v2")
        try:
            require()
        except ImportError as error:
            self.errors.append(f"{at}: {error}: install kapi[kms]")
        path = path[1:] if path.startswith("/@") else path  # an abstract socket (Linux), which is not in a file system
        return [Kms(name, path, timeout)] if len(self.errors) == before else []

    def _invalid(self, at: str, value: object, why: str) -> None:
        self.errors.append(f'{at}: Invalid value: "{value}": {why}')

    def _keys(self, at: str, kind: str, settings: Object) -> list[Provider]:
        make, lengths = _CIPHERS[kind]
        found = []
        for position, entry in enumerate(self._list(f"{at}.keys", settings.get("keys"))):
            here = f"{at}.keys[{position}]"
            name, text = entry.get("name") or "", entry.get("secret") or ""
            for field, given in (("name", name), ("secret", text)):
                if not given:
                    self.errors.append(f"{here}.{field}: Required value: {field} is a mandatory field for a key")
            if not text:
                continue
            try:
                secret = base64_bytes(text)
            except ValueError:
                self._invalid(f"{here}.secret", "REDACTED", "secrets must be base64 encoded")
                continue
            if len(secret) not in lengths:
                shown = " ".join(map(str, lengths))
                why = f"secret is not of the expected length, got {len(secret)}, expected one of [{shown}]"
                self._invalid(f"{here}.secret", "REDACTED", why)
                continue
            try:
                found.append(make(str(name), secret))
            except ImportError:
                self.errors.append(f"{at}: needs PyNaCl: install kapi[secretbox]")
        return found
