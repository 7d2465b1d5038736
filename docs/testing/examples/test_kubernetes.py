"""The official Python client."""

from kubernetes import client, config


def test_dependents_go_with_their_owner(kapi):
    core = client.CoreV1Api(config.new_client_from_config(str(kapi.kubeconfig)))
    owner = core.create_namespaced_config_map(kapi.namespace, {"metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid}
    core.create_namespaced_config_map(kapi.namespace, {"metadata": {"name": "child", "ownerReferences": [reference]}})
    core.delete_namespaced_config_map("owner", kapi.namespace)
    kapi.settled()
    assert "child" not in [item.metadata.name for item in core.list_namespaced_config_map(kapi.namespace).items]
