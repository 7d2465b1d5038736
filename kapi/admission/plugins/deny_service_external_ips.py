"""DenyServiceExternalIPs: no new external IPs on services (CVE-2020-8554)."""

from __future__ import annotations

from kapi.admission.interface import CREATE, UPDATE, Attributes, Plugin, denied
from kapi.machinery import tree


class DenyServiceExternalIPs(Plugin):
    operations = frozenset({CREATE, UPDATE})

    def validate(self, attributes: Attributes) -> None:
        resource = attributes.resource
        if resource.resource != "services" or resource.group or attributes.subresource:
            return
        requested = set(tree.dig(attributes.obj, "spec", "externalIPs") or ())
        if not requested <= set(tree.dig(attributes.old, "spec", "externalIPs") or ()):
            raise denied(attributes, "Use of external IPs is denied by admission control")
