"""Validation of a conversion (upstream: apiextensions ``validation/validation.go`` validateCustomResourceConversion)."""

from __future__ import annotations

import base64

from cryptography import x509

from kapi.machinery.field import FieldError, Path, forbidden, invalid, not_supported, required
from kapi.machinery.tree import Object, Tree
from kapi.resources.admissionregistration import webhooks


def bad_bundle(conversion: Object | None) -> bool:
    """Whether the CA bundle of a definition's conversion cannot be read."""
    bundle: Tree = ((conversion or {}).get("webhookClientConfig") or {}).get("caBundle")
    return bool(bundle) and bool(_bundle_errors(Path("caBundle"), bundle))


def validate_conversion(
    conversion: Object, path: Path, errors: list[FieldError], *, any_bundle: bool, known_review: bool
) -> None:
    """``any_bundle``: an unreadable CA bundle is accepted; ``known_review``: this server must know one of the review versions."""
    strategy, client = conversion.get("strategy") or "", conversion.get("webhookClientConfig")
    reviews = conversion.get("conversionReviewVersions") or []
    if not strategy:
        errors.append(required(path.child("strategy")))
    elif strategy not in ("None", "Webhook"):
        errors.append(not_supported(path.child("strategy"), strategy, ("None", "Webhook")))
    at = path.child("webhookClientConfig")
    if strategy != "Webhook":
        text = "should not be set when strategy is not set to Webhook"
        if client is not None:
            errors.append(forbidden(at, text))
        if reviews:
            errors.append(forbidden(path.child("conversionReviewVersions"), text))
        return
    if client is None:
        errors.append(required(at, "required when strategy is set to Webhook"))
    else:
        if (client.get("url") is None) == (client.get("service") is None):
            errors.append(required(at, "exactly one of url or service is required"))
        elif client.get("url") is not None:
            webhooks.validate_url(client["url"], at.child("url"), errors)
        else:
            webhooks.validate_service(client["service"], at.child("service"), errors)
        if client.get("caBundle") and not any_bundle:
            errors.extend(_bundle_errors(at.child("caBundle"), client["caBundle"]))
    webhooks.validate_review_versions(
        reviews, path.child("conversionReviewVersions"), errors, known_versions=known_review
    )


def _bundle_errors(path: Path, bundle: str) -> list[FieldError]:
    try:
        data = base64.b64decode(bundle)
        x509.load_pem_x509_certificates(data)
    except ValueError as error:
        return [invalid(path, bundle, f"unable to load root certificates: unable to parse bytes as PEM block: {error}")]
    return []
