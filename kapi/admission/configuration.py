"""The file of --admission-control-config-file (upstream: apiserver ``admission/config.go``)."""

from __future__ import annotations

from pathlib import Path

from kapi.machinery.tree import Object

_GROUP = "apiserver.config.k8s.io"


def load_configurations(path: str) -> Object:
    """The configuration of each plugin the file names.  Raises ValueError with a text for the operator."""
    if not path:
        return {}
    document = _document(Path(path))
    version = document.get("apiVersion")
    if version not in (f"{_GROUP}/v1", f"{_GROUP}/v1alpha1") or document.get("kind") != "AdmissionConfiguration":
        raise ValueError(f'{path}: want kind AdmissionConfiguration of "{_GROUP}/v1"')
    found: Object = {}
    for plugin in document.get("plugins") or ():
        if not isinstance(plugin, dict) or not isinstance(plugin.get("name"), str):
            raise ValueError(f"{path}: plugins: want a list of entries with a name")
        configuration, elsewhere = plugin.get("configuration"), plugin.get("path")
        if configuration is None and elsewhere:
            configuration = _document(Path(path).parent / elsewhere)
        if configuration is not None:
            found[plugin["name"]] = configuration
    return found


def _document(path: Path) -> Object:
    import yaml  # imported only when it is used

    try:
        document = yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except OSError as error:
        raise ValueError(f"unable to read admission control configuration from {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(document, dict):
        raise ValueError(f"{path}: want a mapping")
    return document
