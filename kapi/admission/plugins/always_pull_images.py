"""AlwaysPullImages: every new pod pulls its images, so that credentials are always checked."""

from __future__ import annotations

from kapi.admission.interface import CREATE, UPDATE, Attributes, Plugin, denied
from kapi.admission.pods import containers, is_pod
from kapi.machinery.each import each, elements
from kapi.machinery.field import Path, not_supported
from kapi.machinery.golang import aggregate
from kapi.machinery.status import generic


class AlwaysPullImages(Plugin):
    operations = frozenset({CREATE, UPDATE})

    def admit(self, attributes: Attributes) -> None:
        if _ignored(attributes):
            return
        assert attributes.obj is not None
        spec = attributes.obj.get("spec") or {}
        for _, _, container in containers(spec):
            container["imagePullPolicy"] = "Always"
        for volume in elements(spec, "volumes"):
            if volume.get("image") is not None:
                volume["image"]["pullPolicy"] = "Always"

    def validate(self, attributes: Attributes) -> None:
        if _ignored(attributes):
            return
        assert attributes.obj is not None
        spec = attributes.obj.get("spec") or {}
        path = Path("spec")
        wrong = [
            not_supported(
                path.child(field).index(i).child("imagePullPolicy"), container.get("imagePullPolicy", ""), ["Always"]
            )
            for field, i, container in containers(spec)
            if container.get("imagePullPolicy") != "Always"
        ]
        for volume, here in each(path.child("volumes"), spec):
            image = volume.get("image")
            if image is not None and image.get("pullPolicy") != "Always":
                where = here.child("image").child("pullPolicy")
                wrong.append(not_supported(where, image.get("pullPolicy", ""), ["Always"]))
        if wrong:  # upstream's list of errors has no status, even with a single error
            raise generic(aggregate(denied(attributes, str(error)).message for error in wrong))


def _ignored(attributes: Attributes) -> bool:
    if not is_pod(attributes) or attributes.obj is None:
        return True
    if attributes.operation != UPDATE or attributes.old is None:
        return False
    known = {container.get("image") for _, _, container in containers(attributes.old.get("spec") or {})}
    return all(container.get("image") in known for _, _, container in containers(attributes.obj.get("spec") or {}))
