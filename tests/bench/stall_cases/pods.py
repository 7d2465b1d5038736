"""The lists of a pod and of what carries a pod template."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.bench.stall_cases.case import SIZE, STORED, Case, Object, Place, many, mapping

CORE, APPS = "/api/v1", "/apis/apps/v1"


def container(number: int = 0, **more: Any) -> Object:
    return {"name": f"c{number}", "image": "i", **more}


def pod(*containers: Object, **spec: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": containers or (container(),), **spec}}


def env(number: int) -> Object:
    return {"name": f"E{number}", "value": "v"}


def volume(number: int) -> Object:
    return {"name": f"v{number}", "emptyDir": {}}


def mount(number: int) -> Object:
    return {"name": f"v{number}", "mountPath": f"/m{number}"}


def toleration(number: int) -> Object:
    return {"key": f"k{number}", "operator": "Exists", "effect": "NoSchedule"}


def spread(number: int) -> Object:
    return {"maxSkew": 1, "topologyKey": f"k{number}", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}


def expression(number: int) -> Object:
    return {"key": f"k{number}", "operator": "In", "values": ["a"]}


def _volumes_and_mounts() -> Object:
    return pod(container(volumeMounts=many(mount, SIZE // 2)), volumes=many(volume, SIZE // 2))


def _claims() -> Object:
    claims = many(lambda i: {"name": f"r{i}", "resourceClaimName": f"r{i}"}, SIZE * 2 // 3)
    used = [{"name": claim["name"]} for claim in claims]
    return pod(container(resources={"claims": used}), resourceClaims=claims)


def _many_containers() -> Object:
    """A hundred containers that each mount a hundred volumes, have env and ports."""
    parts: Object = {
        "volumeMounts": [mount(index) for index in range(100)],
        "env": [env(index) for index in range(100)],
        "ports": [{"containerPort": index + 1, "hostPort": index + 1} for index in range(100)],
    }
    return pod(*many(lambda i: container(i, **parts)), volumes=[volume(index) for index in range(100)])


def _affinity(part: str, entry: Callable[[int], Object]) -> Object:
    name, _, field = part.partition(".")
    return pod(affinity={name: {field: many(entry)}})


def _term(number: int) -> Object:
    return {"topologyKey": "k", "labelSelector": {"matchExpressions": [expression(number)]}}


def _secret(number: int) -> Object:
    return {"name": f"E{number}", "valueFrom": {"secretKeyRef": {"name": f"s{number}", "key": "k"}}}


def _pod(make: Callable[[], Object]) -> Callable[[Place], Case]:
    return lambda place: place.create(CORE, "pods", make())


def _deployment(place: Place) -> Case:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod(container(env=many(env)))["spec"]}
    return place.create(APPS, "deployments", {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}})


def _status(place: Place) -> Case:
    made = place.create(CORE, "pods", pod(*(container(index) for index in range(3000))))
    statuses = many(
        lambda i: {"name": f"c{i}", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": {}}
    )
    return place.change(
        made, {"status": {"containerStatuses": statuses}}, "application/merge-patch+json", suffix="/status"
    )


def _image(place: Place) -> Case:
    """An update that may change but few fields is compared deeply."""
    made = place.create(CORE, "pods", pod(container(env=many(env, STORED))))
    body = {"spec": {"containers": [container(image="other")]}}
    return place.change(made, body, "application/strategic-merge-patch+json")


def _refused(place: Place) -> Case:
    """A change that is not allowed is answered with the difference of the two specs."""
    made = place.create(CORE, "pods", pod(container(env=many(env, STORED))))
    return place.change(
        made, {"spec": {"containers": [container(env=many(env, SIZE // 2))]}}, "application/merge-patch+json"
    )


CASES: dict[str, Callable[[Place], Case]] = {
    "pod: containers": _pod(lambda: pod(*many(container))),
    "pod: containers of one name": _pod(lambda: pod(*many(lambda i: container(0)))),
    "pod: full containers": _pod(_many_containers),
    "pod: init containers": _pod(lambda: pod(initContainers=many(container))),
    "pod: env": _pod(lambda: pod(container(env=many(env)))),
    "pod: env with references": _pod(
        lambda: pod(container(env=many(lambda i: {"name": f"E{i}", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})))
    ),
    "pod: secrets on a node": _pod(
        lambda: pod(
            container(env=many(_secret, STORED)),
            nodeName="n",
        )
    ),
    "pod: env of one name": _pod(lambda: pod(container(env=many(lambda i: env(0))))),
    "pod: envFrom": _pod(lambda: pod(container(envFrom=many(lambda i: {"configMapRef": {"name": f"c{i}"}})))),
    "pod: ports": _pod(
        lambda: pod(container(ports=many(lambda i: {"containerPort": i % 65535 + 1, "name": f"p{i}", "hostPort": i % 65535 + 1})))
    ),
    "pod: command": _pod(lambda: pod(container(command=many(lambda i: f"{i}")))),
    "pod: volumes": _pod(lambda: pod(volumes=many(volume))),
    "pod: volumes and mounts": _pod(_volumes_and_mounts),
    "pod: mounts of one path": _pod(
        lambda: pod(container(volumeMounts=many(lambda i: {"name": "v0", "mountPath": "/m"})), volumes=[volume(0)])
    ),
    "pod: projected sources": _pod(
        lambda: pod(volumes=[{"name": "v", "projected": {"sources": many(
            lambda i: {"configMap": {"name": "c", "items": [{"key": "k", "path": f"p{i}"}]}})}}])
    ),
    "pod: items of a volume": _pod(
        lambda: pod(volumes=[{"name": "v", "configMap": {"name": "c", "items": many(
            lambda i: {"key": f"k{i}", "path": f"p{i}"})}}])
    ),
    "pod: tolerations": _pod(lambda: pod(tolerations=many(toleration))),
    "pod: topology spread constraints": _pod(lambda: pod(topologySpreadConstraints=many(spread))),
    "pod: resource claims": _pod(_claims),
    "pod: scheduling gates": _pod(lambda: pod(schedulingGates=many(lambda i: {"name": f"g{i}"}))),
    "pod: readiness gates": _pod(lambda: pod(readinessGates=many(lambda i: {"conditionType": f"g{i}"}))),
    "pod: image pull secrets": _pod(lambda: pod(imagePullSecrets=many(lambda i: {"name": f"s{i}"}))),
    "pod: host aliases": _pod(lambda: pod(hostAliases=many(
        lambda i: {"ip": f"10.0.{i >> 8 & 255}.{i & 255}", "hostnames": ["a"]}))),
    "pod: sysctls": _pod(lambda: pod(securityContext={"sysctls": many(lambda i: {"name": f"net.s{i}", "value": "1"})})),
    "pod: supplemental groups": _pod(lambda: pod(securityContext={"supplementalGroups": many(lambda i: i)})),
    "pod: resources": _pod(
        lambda: pod(container(resources={"limits": mapping(lambda i: f"a.b/r{i}", "1", SIZE // 2),
                                         "requests": mapping(lambda i: f"a.b/r{i}", "1", SIZE // 2)}))
    ),
    "pod: capabilities": _pod(lambda: pod(container(securityContext={"capabilities": {"add": many(lambda i: f"C{i}")}}))),
    "pod: node selector": _pod(lambda: pod(nodeSelector=mapping(lambda i: f"k{i}"))),
    "pod: node affinity": _pod(
        lambda: pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": many(lambda i: {"matchExpressions": [expression(i)]})}}})
    ),
    "pod: pod affinity": _pod(lambda: _affinity("podAffinity.requiredDuringSchedulingIgnoredDuringExecution", _term)),
    "pod: pod affinity namespaces": _pod(
        lambda: pod(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "k", "namespaces": many(lambda i: f"n{i}")}]}})
    ),
    "pod: match label keys": _pod(
        lambda: pod(topologySpreadConstraints=[{**spread(0), "matchLabelKeys": many(lambda i: f"k{i}")}])
    ),
    "deployment: env": _deployment,
    "pod: status": _status,
    "pod: image changed": _image,
    "pod: refused change": _refused,
}  # fmt: skip
