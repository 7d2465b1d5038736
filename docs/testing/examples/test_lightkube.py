"""lightkube, with a custom resource whose definition the marker names."""

import pytest
from lightkube import Client, KubeConfig
from lightkube.generic_resource import create_namespaced_resource

Widget = create_namespaced_resource("example.com", "v1", "Widget", "widgets")


@pytest.mark.kapi(crds="widgets.yaml")
def test_a_custom_resource(kapi):
    client = Client(config=KubeConfig.from_file(kapi.kubeconfig), namespace=kapi.namespace)
    client.create(Widget(metadata={"name": "one"}, spec={"size": 3}))
    assert [(widget.metadata.name, widget.spec["size"]) for widget in client.list(Widget)] == [("one", 3)]
