"""Which addresses may be endpoints; external IPs share the rule (upstream: core ``ValidateEndpointIP``)."""

from __future__ import annotations

import ipaddress

from kapi.machinery.field import Path, invalid
from kapi.resources.shared.addresses import parse
from kapi.resources.shared.rules import Errors

_ORIGIN = "format=endpoint-ip"
_LINK_LOCAL_MULTICAST = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))


def validate_endpoint_ip(text: str, path: Path, errors: Errors) -> None:
    """Appends what makes an address unfit: unspecified, loopback, link-local."""
    address = parse(text)
    if address is None:
        errors.append(invalid(path, text, "must be a valid IP address", "format=ip-sloppy"))
        return
    if address.is_unspecified:
        errors.append(invalid(path, text, f"may not be unspecified ({text})", _ORIGIN))
    if address.is_loopback:
        errors.append(invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)", _ORIGIN))
    if address.is_link_local:
        errors.append(invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)", _ORIGIN))
    if any(address.version == network.version and address in network for network in _LINK_LOCAL_MULTICAST):
        detail = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        errors.append(invalid(path, text, detail, _ORIGIN))
