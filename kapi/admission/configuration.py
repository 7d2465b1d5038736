"""The file of --admission-control-config-file (upstream: apiserver ``admission/config.go``, and the ``apis`` of each plugin)."""

from __future__ import annotations

from pathlib import Path

from kapi.admission.podsecurity.levels import MODES
from kapi.machinery.golang import quote
from kapi.machinery.shape import shape_errors
from kapi.machinery.tree import Object, Tree

_GROUP = "apiserver.config.k8s.io"
_FILES = frozenset(
    (version, "AdmissionConfiguration")
    for version in (f"{_GROUP}/v1", f"{_GROUP}/v1alpha1", "apiserver.k8s.io/v1alpha1")
)
_SHAPE: Object = {"plugins": [{"name": str, "path": str, "configuration": object}]}
#: for the configuration file of a single plugin: its field -> the plugin
_UNVERSIONED = {"imagePolicy": "ImagePolicyWebhook", "podNodeSelectorPluginConfig": "PodNodeSelector"}
_WEBHOOKS = frozenset({(f"{_GROUP}/v1", "WebhookAdmissionConfiguration"), (f"{_GROUP}/v1alpha1", "WebhookAdmission")})
#: plugin -> the (apiVersion, kind) that its configuration may have
_KINDS: dict[str, frozenset[tuple[str, str]]] = {
    "EventRateLimit": frozenset({("eventratelimit.admission.k8s.io/v1alpha1", "Configuration")}),
    "MutatingAdmissionPolicy": frozenset({(f"{_GROUP}/v1", "MutatingAdmissionPolicyConfiguration")}),
    "MutatingAdmissionWebhook": _WEBHOOKS,
    "PodSecurity": frozenset(
        (f"pod-security.admission.config.k8s.io/{version}", "PodSecurityConfiguration")
        for version in ("v1", "v1beta1", "v1alpha1")
    ),
    "PodTolerationRestriction": frozenset({("podtolerationrestriction.admission.k8s.io/v1alpha1", "Configuration")}),
    "ResourceQuota": frozenset(
        {
            (f"{_GROUP}/v1", "ResourceQuotaConfiguration"),
            ("resourcequota.admission.k8s.io/v1beta1", "Configuration"),
            ("resourcequota.admission.k8s.io/v1alpha1", "Configuration"),
        }
    ),
    "ValidatingAdmissionPolicy": frozenset({(f"{_GROUP}/v1", "ValidatingAdmissionPolicyConfiguration")}),
    "ValidatingAdmissionWebhook": _WEBHOOKS,
}
_OF_WEBHOOKS: Object = {"kubeConfigFile": str, "staticManifestsDir": str}
_OF_POLICIES: Object = {"staticManifestsDir": str}
_TOLERATIONS: Tree = [{"key": str, "operator": str, "value": str, "effect": str, "tolerationSeconds": int}]
#: plugin -> the shape of its configuration
_SHAPES: dict[str, Object] = {
    "EventRateLimit": {"limits": [{"type": str, "qps": int, "burst": int, "cacheSize": int}]},
    "ImagePolicyWebhook": {
        "imagePolicy": {
            "kubeConfigFile": str,
            "allowTTL": int,
            "denyTTL": int,
            "retryBackoff": int,
            "defaultAllow": bool,
        }
    },
    "MutatingAdmissionPolicy": _OF_POLICIES,
    "MutatingAdmissionWebhook": _OF_WEBHOOKS,
    "PodNodeSelector": {"podNodeSelectorPluginConfig": {str: str}},
    "PodSecurity": {
        "defaults": dict.fromkeys((*MODES, *(f"{mode}-version" for mode in MODES)), str),
        "exemptions": {"usernames": [str], "namespaces": [str], "runtimeClasses": [str]},
    },
    "PodTolerationRestriction": {"default": _TOLERATIONS, "whitelist": _TOLERATIONS},
    "ResourceQuota": {
        "limitedResources": [
            {
                "apiGroup": str,
                "resource": str,
                "matchContains": [str],
                "matchScopes": [{"scopeName": str, "operator": str, "values": [str]}],
            }
        ]
    },
    "ValidatingAdmissionPolicy": _OF_POLICIES,
    "ValidatingAdmissionWebhook": _OF_WEBHOOKS,
}
#: plugins that ignore unknown fields and keys that are there twice, as upstream
_LENIENT = frozenset({"EventRateLimit", "ImagePolicyWebhook", "PodNodeSelector", "PodTolerationRestriction"})


def load_configurations(path: str) -> Object:
    """The configuration of each plugin the file names.  Raises ValueError with a text for the operator."""
    if not path:
        return {}
    document, duplicates = _document(Path(path))
    alone = {plugin: document for field, plugin in _UNVERSIONED.items() if field in document}
    if alone and not _is_one_of(document, _FILES):
        for plugin in alone:
            _check_shape(f"{path}: {plugin}", document, _SHAPES[plugin])
        return alone
    _check_kind(path, document, _FILES)
    _check_shape(path, document, _SHAPE, duplicates)
    found: Object = {}
    for plugin in document.get("plugins") or ():
        if not plugin or not plugin.get("name"):
            raise ValueError(f"{path}: plugins: want a list of entries with a name")
        name, configuration, elsewhere = plugin["name"], plugin.get("configuration"), plugin.get("path")
        duplicates = []
        if configuration is None and elsewhere:
            configuration, duplicates = _document(Path(path).parent / elsewhere)
        if configuration is None or name in found:  # the first of two entries counts
            continue
        if name in _KINDS:
            _check_kind(f"{path}: {name}", configuration, _KINDS[name])
        if name in _SHAPES:
            _check_shape(f"{path}: {name}", configuration, _SHAPES[name], None if name in _LENIENT else duplicates)
        found[name] = configuration
    return found


def _is_one_of(document: object, kinds: frozenset[tuple[str, str]]) -> bool:
    return isinstance(document, dict) and (document.get("apiVersion"), document.get("kind")) in kinds


def _check_kind(where: str, document: object, kinds: frozenset[tuple[str, str]]) -> None:
    if _is_one_of(document, kinds):
        return
    given = document if isinstance(document, dict) else {}
    version, kind = str(given.get("apiVersion") or ""), str(given.get("kind") or "")
    known = " or ".join(f"{known_kind} of {quote(api_version)}" for api_version, known_kind in sorted(kinds))
    raise ValueError(f"{where}: no kind {quote(kind)} is registered for version {quote(version)}: want {known}")


def _check_shape(where: str, document: Object, shape: Object, duplicates: list[str] | None = None) -> None:
    """Refuses values of wrong types; with ``duplicates``, keys that are there twice, also these and unknown fields."""
    problems, unknown = shape_errors(document, {"apiVersion": str, "kind": str, **shape})
    if duplicates is not None:
        problems = [*problems, *duplicates, *unknown]
    if problems:
        raise ValueError(f"{where}: strict decoding error: {', '.join(problems)}")


def _document(path: Path) -> tuple[Object, list[str]]:
    """The content of a file, and the errors of keys that are there twice."""
    from kapi.codecs import yaml_reading  # imported only when it is used

    try:
        document, duplicates = yaml_reading.loads(path.read_bytes())
    except OSError as error:
        raise ValueError(f"unable to read admission control configuration from {path}: {error.strerror}") from None
    except yaml_reading.YAMLError as error:
        raise ValueError(f"{path}: not YAML: {error}") from None
    if not isinstance(document, dict):
        raise ValueError(f"{path}: want a mapping")
    return document, duplicates
