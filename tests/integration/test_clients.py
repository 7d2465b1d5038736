"""Python and JavaScript clients, unmodified, against a real server process."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.server_process import ServerProcess
from tests.waiting import until

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # what the client libraries warn of is their own affair
]


@pytest.fixture
def namespace() -> str:
    return "default"


@pytest.fixture
def prefix() -> Iterator[str]:
    yield f"c{uuid.uuid4().hex[:8]}"


def test_kubernetes(server: ServerProcess, namespace: str, prefix: str) -> None:
    """The official client: create, list by selector, patch, watch, delete."""
    kubernetes = pytest.importorskip("kubernetes")
    from kubernetes import client, config, watch

    api = client.CoreV1Api(config.new_client_from_config(str(server.kubeconfig)))
    assert kubernetes
    names = [f"{prefix}-{index}" for index in range(3)]
    for name in names:
        metadata = client.V1ObjectMeta(name=name, labels={"suite": prefix})
        api.create_namespaced_config_map(namespace, client.V1ConfigMap(metadata=metadata, data={"a": "1"}))
    found = api.list_namespaced_config_map(namespace, label_selector=f"suite={prefix}", limit=2)
    assert [item.metadata.name for item in found.items] == names[:2] and found.metadata._continue
    patched = api.patch_namespaced_config_map(names[0], namespace, {"data": {"b": "2"}})
    assert patched.data == {"a": "1", "b": "2"}
    seen = []
    stream = watch.Watch()
    for event in stream.stream(
        api.list_namespaced_config_map, namespace, label_selector=f"suite={prefix}",
        resource_version=found.metadata.resource_version, timeout_seconds=120,
    ):  # fmt: skip
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 1:
            api.delete_namespaced_config_map(names[1], namespace)
        if len(seen) == 2:
            stream.stop()
    assert seen == [("MODIFIED", names[0]), ("DELETED", names[1])]
    with pytest.raises(client.ApiException) as caught:
        api.read_namespaced_config_map(names[1], namespace)
    assert caught.value.status == 404


def test_kubernetes_asyncio(server: ServerProcess, namespace: str, prefix: str) -> None:
    pytest.importorskip("kubernetes_asyncio")
    from kubernetes_asyncio import client, config, watch

    async def work() -> list[tuple[str, str]]:
        await config.load_kube_config(str(server.kubeconfig))
        async with client.ApiClient() as connection:
            api = client.CoreV1Api(connection)
            body = {"metadata": {"name": prefix, "labels": {"suite": prefix}}, "data": {"a": "1"}}
            made = await api.create_namespaced_config_map(namespace, body)
            patched = await api.patch_namespaced_config_map(prefix, namespace, {"data": {"b": "2"}})
            assert patched.data == {"a": "1", "b": "2"}
            seen = []
            async with watch.Watch() as stream:
                async for event in stream.stream(
                    api.list_namespaced_config_map, namespace, label_selector=f"suite={prefix}",
                    resource_version=made.metadata.resource_version, timeout_seconds=120,
                ):  # fmt: skip
                    seen.append((event["type"], event["object"].metadata.name))
                    if len(seen) == 1:
                        await api.delete_namespaced_config_map(prefix, namespace)
                    if len(seen) == 2:
                        break
            return seen

    assert asyncio.run(work()) == [("MODIFIED", prefix), ("DELETED", prefix)]


def test_kr8s(server: ServerProcess, namespace: str, prefix: str) -> None:
    pytest.importorskip("kr8s")
    import kr8s
    from kr8s._async_utils import as_sync_func
    from kr8s.objects import ConfigMap

    api = kr8s.api(kubeconfig=str(server.kubeconfig))
    try:
        _use_kr8s(api, ConfigMap, namespace, prefix)
    finally:  # it offers no end, and its kept connection would be the garbage collector's in another test
        as_sync_func(api._session.aclose)()


def _use_kr8s(api: Any, ConfigMap: Any, namespace: str, prefix: str) -> None:
    config = ConfigMap({"metadata": {"name": prefix, "namespace": namespace}, "data": {"a": "1"}}, api=api)
    config.create()
    config.label({"suite": prefix})
    assert [item.name for item in api.get("configmaps", namespace=namespace, label_selector=f"suite={prefix}")] == [
        prefix
    ]
    config.patch({"data": {"a": "2"}})
    config.refresh()
    assert config.data.a == "2"
    config.delete()
    assert not config.exists()


def test_lightkube(server: ServerProcess, namespace: str, prefix: str) -> None:
    pytest.importorskip("lightkube")
    from lightkube import ApiError, Client, KubeConfig
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.core_v1 import ConfigMap

    api = Client(KubeConfig.from_file(str(server.kubeconfig)), field_manager="suite")
    config = ConfigMap(metadata=ObjectMeta(name=prefix, namespace=namespace, labels={"suite": prefix}), data={"a": "1"})
    api.create(config)
    config.metadata.managedFields = None
    config.data = {"a": "2"}
    applied = api.apply(config, force=True)
    assert applied.data == {"a": "2"}
    assert [item.metadata.name for item in api.list(ConfigMap, namespace=namespace, labels={"suite": prefix})] == [
        prefix
    ]
    api.delete(ConfigMap, prefix, namespace=namespace)
    with pytest.raises(ApiError):
        api.get(ConfigMap, prefix, namespace=namespace)


_OPERATOR = """
import kopf

@kopf.on.create("configmaps", labels={{"suite": "{prefix}"}})
@kopf.on.update("configmaps", labels={{"suite": "{prefix}"}})
def answer(body, patch, **_):
    patch.metadata.annotations["answer"] = body.get("data", {{}}).get("question", "") + "!"

@kopf.on.delete("configmaps", labels={{"suite": "{prefix}"}})
def bye(**_):
    print("BYE", flush=True)
"""


def test_kopf(server: ServerProcess, namespace: str, prefix: str, tmp_path: Path) -> None:
    """An operator on ConfigMaps: handlers, its finalizer, and its annotations."""
    pytest.importorskip("kopf")
    from kubernetes import client, config

    api = client.CoreV1Api(config.new_client_from_config(str(server.kubeconfig)))
    program = tmp_path / "operator_program.py"
    program.write_text(_OPERATOR.format(prefix=prefix))
    operator = subprocess.Popen(
        [sys.executable, "-m", "kopf", "run", "-n", namespace, "--standalone", str(program)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=server.environment(),
    )  # fmt: skip
    output: list[str] = []
    reader = threading.Thread(target=lambda: output.extend(operator.stdout or ()), daemon=True)
    reader.start()
    try:
        body = {"metadata": {"name": prefix, "labels": {"suite": prefix}}, "data": {"question": "why"}}
        api.create_namespaced_config_map(namespace, body)

        def annotated() -> Any:
            return (api.read_namespaced_config_map(prefix, namespace).metadata.annotations or {}).get("answer")

        assert until(annotated) == "why!", "".join(output)
        api.delete_namespaced_config_map(prefix, namespace)

        def gone() -> bool:
            return not api.list_namespaced_config_map(namespace, label_selector=f"suite={prefix}").items

        until(gone)
        until(lambda: any("BYE" in line for line in output))
    finally:
        operator.terminate()
        operator.wait(120)


_SCRIPT = """
const k8s = require('@kubernetes/client-node');
(async () => {
  const kc = new k8s.KubeConfig(); kc.loadFromFile(process.env.KUBECONFIG);
  const api = kc.makeApiClient(k8s.CoreV1Api);
  const name = process.argv[2], namespace = 'default';
  const list = () => api.listNamespacedConfigMap({namespace});
  const informer = k8s.makeInformer(kc, `/api/v1/namespaces/${namespace}/configmaps`, list);
  const seen = [];
  const gone = new Promise((resolve) => informer.on('delete', (o) => { if (o.metadata.name === name) resolve(); }));
  for (const verb of ['add', 'update', 'delete']) informer.on(verb, (o) => { if (o.metadata.name === name) seen.push(verb); });
  await informer.start();
  await api.createNamespacedConfigMap({namespace, body: {metadata: {name}, data: {a: '1'}}});
  await api.patchNamespacedConfigMap({name, namespace, body: [{op: 'add', path: '/data/b', value: '2'}]});
  const read = await api.readNamespacedConfigMap({name, namespace});
  await api.deleteNamespacedConfigMap({name, namespace});
  await gone;
  await informer.stop();
  console.log(JSON.stringify({data: read.data, seen}));
  process.exit(0);
})().catch((error) => { console.error(error); process.exit(1); });
"""


def test_client_node(server: ServerProcess, prefix: str, request: pytest.FixtureRequest) -> None:
    """@kubernetes/client-node: list, patch, informer.  The next run finds its 70 MB installed."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("node and npm are not installed")
    directory: Path = request.config.cache.mkdir("client-node")
    installed = subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", "--silent", "@kubernetes/client-node@1"],
        cwd=directory, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    if installed.returncode:
        pytest.skip(f"@kubernetes/client-node cannot be installed here: {installed.stderr[-200:]}")
    (directory / "suite.js").write_text(_SCRIPT)
    done = subprocess.run(
        [node, "suite.js", prefix], cwd=directory, capture_output=True, text=True, timeout=120, env=server.environment()
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "data": {"a": "1", "b": "2"},
        "seen": ["add", "update", "delete"],
    }


def test_a_secret_keeps_its_bytes(server: ServerProcess, namespace: str, prefix: str) -> None:
    pytest.importorskip("kubernetes")
    from kubernetes import client, config

    api = client.CoreV1Api(config.new_client_from_config(str(server.kubeconfig)))
    data = {"k": base64.b64encode(bytes(range(256))).decode()}
    api.create_namespaced_secret(namespace, client.V1Secret(metadata=client.V1ObjectMeta(name=prefix), data=data))
    assert api.read_namespaced_secret(prefix, namespace).data == data
