"""The official client's asynchronous sibling."""

import asyncio

from kubernetes_asyncio import client, config


def test_a_config_map_comes_and_goes(kapi):
    async def main():
        await config.load_kube_config(config_file=str(kapi.kubeconfig))
        async with client.ApiClient() as api:
            core = client.CoreV1Api(api)
            await core.create_namespaced_config_map(kapi.namespace, {"metadata": {"name": "one"}, "data": {"a": "1"}})
            found = await core.read_namespaced_config_map("one", kapi.namespace)
            assert found.data == {"a": "1"}
            await core.delete_namespaced_config_map("one", kapi.namespace)

    asyncio.run(main())
