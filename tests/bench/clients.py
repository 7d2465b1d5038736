"""``python -m tests.bench.clients``: the client library beside others for Python, against one kapi.

GETs a second, and per second of the client's CPU, of one small object: one after the other, and sixteen at a time.  Then an
informer over many Pods: seconds and CPU until it has all, memory for each byte of their JSON, and the time from a write to
the handler.  Then ``kapi get pods`` beside kubectl.  Every client is a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from kapi.testing.process import KapiProcess

CLIENTS = ("kapi", "kubernetes_asyncio", "lightkube", "kr8s")
NAME, NAMESPACE = "bench", "default"
Get = Callable[[], Awaitable[Any]]


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _resident() -> int:
    """Bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def _measure(
    get: Get, seconds: float, several: Callable[[list[Any]], Awaitable[Any]], start: Any
) -> dict[str, float]:
    found: dict[str, float] = {}
    for _ in range(50):
        await get()
    for width in (1, 16):
        count, begin, cpu = 0, time.perf_counter(), _cpu()
        end = begin + seconds

        async def work(end: float = end) -> None:
            nonlocal count
            while time.perf_counter() < end:
                await get()
                count += 1

        await several([start(work()) for _ in range(width)])
        found[f"gets_{width}"] = count / (time.perf_counter() - begin)
        found[f"gets_per_cpu_{width}"] = count / (_cpu() - cpu)
    return found


def _with_kapi(kubeconfig: str, body: Callable[[Any, Any], Awaitable[Any]]) -> Any:
    """``body`` gets the reactor and a client."""
    from twisted.internet import reactor
    from twisted.internet.defer import Deferred

    from kapi.client.clientcmd import load_config
    from kapi.client.dynamic import DynamicClient

    results: list[Any] = []

    def begin() -> None:
        config = load_config(reactor, kubeconfig=kubeconfig, qps=0)
        running = Deferred.fromCoroutine(body(reactor, DynamicClient.for_config(config, reactor)))
        running.addBoth(results.append)
        running.addBoth(lambda _: reactor.stop())

    reactor.callWhenRunning(begin)
    reactor.run()
    if hasattr(results[0], "raiseException"):
        results[0].raiseException()
    return results[0]


def get_with_kapi(kubeconfig: str, seconds: float) -> dict[str, float]:
    async def body(reactor: Any, client: Any) -> dict[str, float]:
        from twisted.internet.defer import Deferred, gatherResults

        maps = (await client.resource("configmaps")).namespace(NAMESPACE)
        return await _measure(lambda: maps.get(NAME), seconds, gatherResults, Deferred.fromCoroutine)

    found: dict[str, float] = _with_kapi(kubeconfig, body)
    return found


async def _all(tasks: list[Any]) -> None:
    await asyncio.gather(*tasks)


async def get_with_kubernetes_asyncio(kubeconfig: str, seconds: float) -> dict[str, float]:
    from kubernetes_asyncio import client, config

    await config.load_kube_config(kubeconfig)
    async with client.ApiClient() as api:
        core = client.CoreV1Api(api)
        return await _measure(
            lambda: core.read_namespaced_config_map(NAME, NAMESPACE), seconds, _all, asyncio.create_task
        )


async def get_with_lightkube(kubeconfig: str, seconds: float) -> dict[str, float]:
    from lightkube import AsyncClient, KubeConfig
    from lightkube.resources.core_v1 import ConfigMap

    client = AsyncClient(KubeConfig.from_file(kubeconfig))
    return await _measure(lambda: client.get(ConfigMap, NAME, namespace=NAMESPACE), seconds, _all, asyncio.create_task)


async def get_with_kr8s(kubeconfig: str, seconds: float) -> dict[str, float]:
    import kr8s.asyncio
    from kr8s.asyncio.objects import ConfigMap

    api = await kr8s.asyncio.api(kubeconfig=kubeconfig)
    return await _measure(lambda: ConfigMap.get(NAME, namespace=NAMESPACE, api=api), seconds, _all, asyncio.create_task)


def pod(number: int) -> dict[str, Any]:
    """Of a common size."""
    container = {
        "name": "c", "image": "registry.example.com/team/application:1.2.3",
        "env": [{"name": f"VARIABLE_{index}", "value": f"value {index}"} for index in range(5)],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
    }  # fmt: skip
    metadata = {"name": f"pod-{number:05d}", "labels": {"app": f"app-{number % 50}", "tier": "backend"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def inform(kubeconfig: str, pods: int, packed: bool = False) -> dict[str, float]:
    async def body(reactor: Any, client: Any) -> dict[str, float]:
        from twisted.internet.defer import Deferred, gatherResults

        from kapi.runtime.informer import SharedInformer

        resource_ = await client.resource("pods")
        mine = resource_.namespace(NAMESPACE)
        numbers = iter(range(0 if packed else pods))  # who keeps them packed comes second

        async def create() -> None:
            for number in numbers:
                await mine.create(pod(number))

        await gatherResults([Deferred.fromCoroutine(create()) for _ in range(16)])
        bytes_ = len(await mine._to(mine._client.get()).raw())
        gc.collect()
        before, begin, cpu = _resident(), time.perf_counter(), _cpu()
        informer = SharedInformer(resource_, packed=packed)
        informer.start()
        await informer.synced()
        found = {"seconds": time.perf_counter() - begin, "cpu": _cpu() - cpu, "json_bytes": bytes_}
        gc.collect()
        found["memory_per_json_byte"] = (_resident() - before) / bytes_
        if packed:
            informer.stop()
            return found
        took, waiting = [], Deferred()
        informer.add_handler(on_update=lambda old, new: waiting.called or waiting.callback(time.perf_counter()))
        for number in range(200):
            waiting, begin = Deferred(), time.perf_counter()
            await mine.patch(f"pod-{number:05d}", {"metadata": {"annotations": {"n": str(number)}}})
            took.append(await waiting - begin)
        found["write_to_handler_ms"] = statistics.median(took) * 1000
        informer.stop()
        return found

    found: dict[str, float] = _with_kapi(kubeconfig, body)
    return found


def commands(kapi: KapiProcess, times: int = 7) -> dict[str, float]:
    """Seconds from start to exit, the median."""
    beside = Path(sys.executable).parent
    found = {}
    for name in ("kapi", "kubectl"):
        took = []
        for _ in range(times):
            begin = time.perf_counter()
            command = [str(beside / name), "get", "pods", "--chunk-size=10"]
            subprocess.run([*command, "-l", "app=app-1"], env=kapi.environment(), capture_output=True, check=True)
            took.append(time.perf_counter() - begin)
        found[f"{name}_get_seconds"] = statistics.median(took)
    return found


def _child(what: str, kubeconfig: str, seconds: float, pods: int) -> dict[str, float]:
    if what == "informer":
        return inform(kubeconfig, pods)
    if what == "packed informer":
        return inform(kubeconfig, pods, packed=True)
    if what == "kapi":
        return get_with_kapi(kubeconfig, seconds)
    run: Any = {
        "kubernetes_asyncio": get_with_kubernetes_asyncio,
        "lightkube": get_with_lightkube,
        "kr8s": get_with_kr8s,
    }[what]
    return asyncio.run(run(kubeconfig, seconds))  # type: ignore[no-any-return]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", default="")
    parser.add_argument("--kubeconfig", default="")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pods", type=int, default=10_000)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(_child(arguments.child, arguments.kubeconfig, arguments.seconds, arguments.pods)))
        return
    with KapiProcess("--max-requests-inflight=0") as kapi:
        manifest = kapi.root / "bench.json"
        tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": {"key": "value"}}
        manifest.write_text(json.dumps(tree))
        created = [sys.executable, "-m", "kapi", "create", "-f", str(manifest)]
        subprocess.run(created, env=kapi.environment(), check=True, capture_output=True)

        def child(what: str) -> dict[str, float]:
            command = [
                sys.executable,
                "-m",
                "tests.bench.clients",
                f"--child={what}",
                f"--kubeconfig={kapi.kubeconfig}",
            ]
            command += [f"--seconds={arguments.seconds}", f"--pods={arguments.pods}"]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                print(f"{what}: {done.stderr[-400:]}")
                return {}
            found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
            return found

        rounds: dict[str, list[dict[str, float]]] = {name: [] for name in CLIENTS}
        for _ in range(arguments.rounds):
            for name in CLIENTS:
                rounds[name].append(child(name))
        for name, found in rounds.items():
            keys = found[0] if found else {}
            if keys:
                print(name, {key: round(statistics.median(one[key] for one in found), 1) for key in keys})
        for what in ("informer", "packed informer"):
            print(what, {key: round(value, 3) for key, value in child(what).items()})
        print("command", {key: round(value, 3) for key, value in commands(kapi).items()})


if __name__ == "__main__":
    main()
