"""The logical cluster of a command, and paths of requests to it or to its server; upstream has none."""

from __future__ import annotations

from urllib.parse import quote, urlsplit, urlunsplit

from kapi.client.rest import RESTClient
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import Flag
from kapi.kubectl.messages import CommandError

FLAG = Flag("logical-cluster", help="The logical cluster of the test server.")
_PATH = "clusters"


class LogicalClusters:
    """``name`` is from ``--logical-cluster``, or from the URL of the kubeconfig's server; "" means none."""

    def __init__(self, factory: Factory) -> None:
        config = factory.config
        host, self.name = _split(config.host)
        self.name = factory.flags.get_string(FLAG.name) or self.name
        factory.use(config.replace(host=host))
        self.server: RESTClient = factory.client()

    def path(self, rest: str = "") -> str:
        """The path of the logical cluster, followed by ``rest``.  Raises CommandError when none is named."""
        if not self.name:
            raise CommandError("the kubeconfig's server names no logical cluster (https://.../clusters/NAME); "
                               "--logical-cluster does")  # fmt: skip
        return f"/{_PATH}/{segment(self.name)}{rest}"

    def path_below(self, rest: str) -> str:
        """The path ``rest`` in the logical cluster, or of the server itself when none is named."""
        return self.path(rest) if self.name else rest


def segment(name: str) -> str:
    """A name as a segment of a path."""
    return quote(name, safe="")


def _split(host: str) -> tuple[str, str]:
    """The URL of the server itself, and the name of the logical cluster at the end of ``host``."""
    parsed = urlsplit(host)
    parts = parsed.path.rstrip("/").rsplit("/", 2)
    if len(parts) == 3 and parts[1] == _PATH and parts[2]:
        return urlunsplit(parsed._replace(path=parts[0])), parts[2]
    return host, ""
