"""``--record``: an annotation with the command that changed an object last (upstream: cli-runtime ``genericclioptions``).

kubectl keeps the flag for old scripts, and warns of it.
"""

from __future__ import annotations

from kapi.kubectl.factory import Factory
from kapi.machinery.tree import Object

CHANGE_CAUSE = "kubernetes.io/change-cause"


def record_patch(factory: Factory, program: str) -> Object:
    """A merge patch that sets the annotation; {} without ``--record``."""
    flags = factory.flags
    if not flags.has("record") or not flags.get_bool("record"):
        return {}
    cause = " ".join((program, factory.command, *flags.arguments, *flags.as_given))
    return {"metadata": {"annotations": {CHANGE_CAUSE: cause}}}


def recorded(factory: Factory, program: str, obj: Object) -> Object:
    """The object, with ``--record`` a copy that has the annotation."""
    patch = record_patch(factory, program)
    if not patch:
        return obj
    metadata = obj.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), **patch["metadata"]["annotations"]}
    return {**obj, "metadata": {**metadata, "annotations": annotations}}
