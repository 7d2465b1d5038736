"""kr8s finds the cluster by ``KUBECONFIG``, which the fixture sets."""

import kr8s
from kr8s.objects import ConfigMap


def test_a_config_map_is_patched(kapi, kapi_namespace):
    api = kr8s.api(kubeconfig=str(kapi.kubeconfig))
    one = ConfigMap({"metadata": {"name": "one", "namespace": kapi_namespace}, "data": {"a": "1"}}, api=api)
    one.create()
    one.patch({"data": {"b": "2"}})
    one.refresh()
    assert dict(one.raw["data"]) == {"a": "1", "b": "2"}
