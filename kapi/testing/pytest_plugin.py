"""The pytest plugin: a cluster for each test (docs/testing).

pytest loads it wherever kapi is installed, so it imports nothing of kapi until a test asks for a fixture.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kapi.testing.cluster import Cluster
    from kapi.testing.kubectl import Kubectl
    from kapi.testing.process import KapiProcess
    from kapi.testing.servers import Servers

_MARKER = (
    "kapi(flags=..., crds=..., manifests=..., seed=...): the server's flags, files or trees that are applied before the test, "
    "and what uids and generated names are made of; "
    "each replaces what the command line or the ini file says"
)
_CLUSTER = pytest.StashKey["Cluster"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kapi", "Kubernetes API server for tests")
    for name, text in (
        ("flags", "flags of the server, as on kapi's command line"),
        ("crds", "files of CustomResourceDefinitions that each test finds"),
        ("manifests", "files of other objects that each test finds"),
    ):
        group.addoption(f"--kapi-{name}", action="append", metavar=name.upper(), help=text)
        parser.addini(f"kapi_{name}", text, type="args")
    text = "uids, generated names and the namespace of each test's cluster come out the same each time"
    group.addoption("--kapi-seed", metavar="TEXT", help=text)
    parser.addini("kapi_seed", text, default="")
    text = "with pytest-xdist: all workers use the same servers"
    group.addoption("--kapi-shared", action="store_true", help=text)
    parser.addini("kapi_shared", text, type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)


def _settings(request: pytest.FixtureRequest, name: str) -> tuple[list[Any], Path]:
    """The values of the marker, else of the command line, else of the ini file, and the directory of relative file names."""
    for marker in request.node.iter_markers("kapi"):
        unknown = set(marker.kwargs) - {"flags", "crds", "manifests", "seed"}
        if marker.args or unknown:
            text = f"pytest.mark.kapi takes flags, crds, manifests and seed, not {marker.args or unknown}"
            raise pytest.UsageError(text)
        if name in marker.kwargs:
            return _as_list(marker.kwargs[name]), request.path.parent
    given = request.config.getoption(f"--kapi-{name}")
    if given is not None:
        return [word for text in given for word in shlex.split(text)], request.config.invocation_params.dir
    return list(request.config.getini(f"kapi_{name}")), request.config.rootpath


def _seed(request: pytest.FixtureRequest) -> str:
    for marker in request.node.iter_markers("kapi"):
        if "seed" in marker.kwargs:
            return str(marker.kwargs["seed"])
    given = request.config.getoption("--kapi-seed")
    return str(request.config.getini("kapi_seed") if given is None else given)


def _as_list(value: Any) -> list[Any]:
    return [value] if isinstance(value, str | dict | Path) else list(value)


@pytest.fixture(scope="session")
def kapi_servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """The servers of the session, by their flags; with xdist those of this worker, unless ``--kapi-shared`` is given."""
    from kapi.testing.servers import Servers

    config = request.config
    shared = config.getoption("--kapi-shared") or config.getini("kapi_shared")
    if shared and "PYTEST_XDIST_WORKER" in os.environ:  # each worker has a directory below the session's
        servers = Servers(tmp_path_factory.getbasetemp().parent / "kapi-shared")
    else:
        servers = Servers()
    yield servers
    servers.stop()


@pytest.fixture(scope="session")
def kapi_server(request: pytest.FixtureRequest, kapi_servers: Servers) -> KapiProcess:
    """The server of the tests without flags of their own; with xdist each worker has one, unless ``--kapi-shared`` is given."""
    return kapi_servers.get(_settings(request, "flags")[0])


@pytest.fixture
def kapi_factory(
    request: pytest.FixtureRequest, kapi_servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Cluster]]:
    """Makes further clusters for the test.

    ``kapi_factory("--flag=value", ...)``, ``kapi_factory(origin="snapshot")``, ``kapi_factory(seed="text")``.
    """
    from kapi.testing.cluster import Cluster, LogicalCluster
    from kapi.testing.servers import several

    made: list[Cluster] = []

    def make(*flags: str, origin: str = "", seed: str = "") -> Cluster:
        server = kapi_servers.get(flags or _settings(request, "flags")[0])
        directory, trail = tmp_path_factory.mktemp("kapi"), kapi_servers.trail(server)
        if several(server.flags):
            cluster = Cluster(server, directory, trail)
        else:
            cluster = LogicalCluster(server, directory, trail, origin=origin, seed=seed)
        cluster.open()
        made.append(cluster)
        return cluster

    yield make
    for cluster in reversed(made):
        cluster.close()


@pytest.fixture
def kapi(
    request: pytest.FixtureRequest, kapi_factory: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch
) -> Cluster:
    """A cluster for this test: a separate logical cluster in a server of the session, with a namespace.

    ``KUBECONFIG`` points to it while the test runs, so that clients with default settings use it.
    """
    cluster = kapi_factory(seed=_seed(request))
    request.node.stash[_CLUSTER] = cluster
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("crds", "manifests"):
        files, base = _settings(request, name)
        cluster.apply(*files, base=base)
    return cluster


@pytest.fixture
def kapi_namespace(kapi: Cluster) -> str:
    """The name of the test's namespace."""
    return kapi.namespace


@pytest.fixture
def kubectl(kapi: Cluster) -> Kubectl:
    """``kubectl("get", "pods")`` returns a tree, for the test's namespace."""
    try:
        return kapi.kubectl()
    except RuntimeError as error:
        pytest.skip(str(error))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failing test's report shows the requests that the server got meanwhile, and the Events of its namespaces."""
    report = yield
    cluster = item.stash.get(_CLUSTER, None)
    if cluster is not None and report.failed:
        report.sections.extend((title, text) for title, text in _sections(cluster) if text)
    return report


def _sections(cluster: Cluster) -> Sequence[tuple[str, str]]:
    from kapi.testing.audit import requests_text

    try:
        return [("kapi: requests", requests_text(cluster.requests())), ("kapi: events", "\n".join(cluster.events()))]
    except Exception as error:  # it may be the server that has failed
        return [("kapi: requests", f"they are not known: {error}"), ("kapi: log", "".join(cluster.server.output[-50:]))]
