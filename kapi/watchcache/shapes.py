"""Whether an object of the server's configuration has the shape of its kind.

Upstream decodes every object that it reads from etcd.  Here stored bytes are served as they are, so an object that another
program wrote, or another version, may be JSON of another shape.  One that only clients read concerns nobody else.  But one that
the server acts on would stop what it configures, for all: it is unreadable, as any other that cannot be decoded.
"""

from __future__ import annotations

from kapi.machinery.gvk import GroupVersion, GroupVersionKind
from kapi.machinery.tree import Object
from kapi.schema import builtin
from kapi.schema.decode import decode_tree

#: (group or "core", resource) of objects that are checked whenever they are decoded; there are few of them
CHECKED = frozenset(
    {
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
        ("apiregistration.k8s.io", "apiservices"),
        ("core", "limitranges"),
        ("core", "resourcequotas"),
        ("core", "services"),
        ("flowcontrol.apiserver.k8s.io", "flowschemas"),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
        ("networking.k8s.io", "servicecidrs"),
    }
)


def check_shape(tree: Object) -> None:
    """Raises ValueError with the text of Go's decoder.  A kind that is not known is not checked."""
    kind = GroupVersionKind(*GroupVersion.parse(str(tree["apiVersion"])), str(tree["kind"]))
    if kind in builtin.names_by_kind():
        decode_tree(tree, builtin.type_of(kind), strict=False)
