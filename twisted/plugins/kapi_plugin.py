"""``twistd kapi``: makes the server known to twistd."""

from twisted.application.service import ServiceMaker

kapi = ServiceMaker("kapi", "kapi.tap", "A Kubernetes API server", "kapi")
