"""The configuration of a client that runs in a Pod (upstream: client-go ``rest.InClusterConfig``)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from kapi.client.config import Config, ConfigError
from kapi.client.credentials import TokenFile
from kapi.machinery.golang import file_error

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def in_cluster_config(
    environment: Mapping[str, str] | None = None, directory: str = SERVICE_ACCOUNT, **more: object
) -> Config:
    """Reads the environment variables of the ``kubernetes`` Service and the files of the mounted ServiceAccount.

    ``more`` are fields of Config.  Raises ConfigError.
    """
    given = os.environ if environment is None else environment
    host, port = given.get("KUBERNETES_SERVICE_HOST", ""), given.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise ConfigError(
            "unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined"
        )
    base = Path(directory)
    token = base / "token"
    if not os.access(token, os.R_OK):
        raise ConfigError(f"open {token}: no such file or directory, or not readable", file=str(token), field="token")
    try:
        ca = (base / "ca.crt").read_bytes()
    except OSError as error:
        raise ConfigError(file_error(error), file=str(base / "ca.crt"), field="ca.crt") from None
    try:
        namespace = (base / "namespace").read_text().strip()
    except OSError:
        namespace = ""
    if ":" in host:
        host = f"[{host}]"
    return Config(
        host=f"https://{host}:{port}", namespace=namespace or "default", ca=ca, credentials=TokenFile(str(token))
    ).replace(**more)
