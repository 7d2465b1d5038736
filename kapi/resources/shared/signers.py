"""Names of certificate signers: ``example.com/signer`` (upstream: ``core/validation/names.go`` ValidateSignerName)."""

from __future__ import annotations

from kapi.machinery import field
from kapi.machinery.field import Path
from kapi.resources.shared.names import is_dns1123_label, is_dns1123_subdomain
from kapi.resources.shared.rules import Errors, fits

_MAX_DOMAIN, _MAX_PATH = 253, 253 + 63 + 1  # bytes


def is_kubernetes_signer(name: str) -> bool:
    host = name.partition("/")[0]
    return host == "kubernetes.io" or host.endswith(".kubernetes.io")


def validate_signer_name(name: str, path: Path, errors: Errors) -> None:
    if not name:
        errors.append(field.required(path))
        return
    if name.count("/") != 1:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        errors.append(field.invalid(path, name, text))
        return
    domain, _, rest = name.partition("/")
    fits(len(domain), _MAX_DOMAIN, path, errors)
    labels = domain.split(".")
    for label in labels:
        texts = is_dns1123_label(label)
        for text in texts:
            errors.append(field.invalid(path, domain, f'validating label "{label}": {text}'))
        if texts:
            break
    if len(labels) < 2:
        errors.append(field.invalid(path, domain, "should be a domain with at least two segments separated by dots"))
    for label in rest.split("."):
        texts = is_dns1123_subdomain(label)
        for text in texts:
            errors.append(field.invalid(path, rest, f'validating label "{label}": {text}'))
        if texts:
            break
    fits(len(name), _MAX_DOMAIN + _MAX_PATH + 1, path, errors)
