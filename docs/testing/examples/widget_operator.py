"""An operator that says in the status how large a widget is."""

import kopf


@kopf.on.create("example.com", "v1", "widgets")
def created(spec, patch, **_):
    patch.status["text"] = f"size {spec['size']}"
