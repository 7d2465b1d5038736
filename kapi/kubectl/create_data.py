"""``kapi create configmap`` and ``kapi create secret`` (upstream: kubectl ``cmd/create``, ``util/hash``)."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path

from kapi.kubectl.command import Command, Help
from kapi.kubectl.creating import CREATE, create, metadata, one_name
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import Flag
from kapi.kubectl.messages import CommandError
from kapi.machinery.go_json import json_text
from kapi.machinery.golang import quote
from kapi.machinery.tree import Object

_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_MAX_KEY = 253
_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_VARIABLE_TEXT = (
    "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and must not start "
    "with a digit (e.g. 'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', regex used for validation is "
    "'[-._a-zA-Z][-._a-zA-Z0-9]*')"
)
_MASK = str.maketrans("013ae", "ghkmt")  # so that no words appear by chance
#: adds the content of a key
Add = Callable[[str, bytes], None]


def literal(text: str) -> tuple[str, str]:
    """Key and value of ``--from-literal``.  Raises CommandError."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise CommandError(f"invalid literal source {text}, expected key=value")
    return key, value


def _file_source(text: str) -> tuple[str, str]:
    """Key and path of ``--from-file``.  Raises CommandError."""
    count = text.count("=")
    if not count:
        return os.path.basename(text.rstrip("/")) or "/", text
    if count > 1:
        raise CommandError("key names or file paths cannot contain '='")
    key, _, path = text.partition("=")
    if not key:
        raise CommandError(f"key name for file path {path} missing")
    if not path:
        raise CommandError(f"file path for key name {key} missing")
    return key, path


def _add_sources(factory: Factory, add: Add, what: str) -> None:
    """Adds the data of the flags.  ``what`` is "config" or "secret".  Raises CommandError."""
    flags = factory.flags

    def add_files() -> None:
        for text in flags.get_list("from-file"):
            _add_file(text, add)

    if what == "config":
        add_files()
    for text in flags.get_list("from-literal"):
        key, value = literal(text)
        add(key, value.encode())
    if what == "secret":
        add_files()
    for path in flags.get_list("from-env-file"):
        if not os.path.exists(path):
            raise CommandError(f"error reading {path}: no such file or directory")
        if os.path.isdir(path):
            raise CommandError(f"env {what} file cannot be a directory")
        for key, value in environment_of(path):
            add(key, value.encode())


def _add_file(text: str, add: Add) -> None:
    key, path = _file_source(text)
    if not os.path.exists(path):
        raise CommandError(f"error reading {path}: no such file or directory")
    if not os.path.isdir(path):
        add(key, Path(path).read_bytes())
        return
    if "=" in text:
        raise CommandError("cannot give a key name for a directory path")
    for entry in sorted(os.scandir(path), key=lambda entry: entry.name):
        if entry.is_file(follow_symlinks=False):
            add(entry.name, Path(entry.path).read_bytes())


def environment_of(path: str) -> list[tuple[str, str]]:
    """The variables of a file of KEY=VALUE; KEY alone gets the value from this process's environment.  Raises CommandError."""
    found = []
    for number, line in enumerate(Path(path).read_bytes().split(b"\n"), 1):
        line = line.removesuffix(b"\r")
        try:
            text = line.decode().removeprefix("\ufeff" if number == 1 else "").lstrip()
        except UnicodeDecodeError:
            shown = " ".join(map(str, line))
            raise CommandError(f"env file {path} contains invalid utf8 bytes at line {number}: [{shown}]") from None
        if not text or text.startswith("#"):
            continue
        key, equals, value = text.partition("=")
        if problems := variable_problems(key):
            raise CommandError(f"{quote(key)} is not a valid key name: {';'.join(problems)}")
        found.append((key, value if equals else os.environ.get(key, "")))
    return found


def variable_problems(name: str) -> list[str]:
    """The errors of the name of an environment variable."""
    return ([] if _VARIABLE.fullmatch(name) else [_VARIABLE_TEXT]) + _parent_problems(name)


def _key_problems(key: str) -> list[str]:
    problems = [f"must be no more than {_MAX_KEY} characters"] if len(key) > _MAX_KEY else []
    return problems + ([] if _KEY.fullmatch(key) else [_KEY_TEXT]) + _parent_problems(key)


def _parent_problems(key: str) -> list[str]:
    """The errors of a key as a file name, which must not lead to another directory."""
    if key in (".", ".."):
        return [f"must not be '{key}'"]
    return ["must not start with '..'"] if key.startswith("..") else []


def _hash(obj: Object, fields: tuple[str, ...]) -> str:
    """The suffix of ``--append-hash``."""
    content = {field: obj[field] for field in fields if field in obj} | {
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
    }
    return hashlib.sha256(json_text(content).encode()).hexdigest()[:10].translate(_MASK)


def _check_environment_alone(factory: Factory) -> None:
    flags = factory.flags
    if flags.get_list("from-env-file") and (flags.get_list("from-file") or flags.get_list("from-literal")):
        raise CommandError("from-env-file cannot be combined with from-file or from-literal")


async def _config_map(factory: Factory, program: str) -> int:
    name = one_name(factory, program)
    _check_environment_alone(factory)
    data: dict[str, str] = {}
    binary: dict[str, str] = {}

    def add(key: str, content: bytes) -> None:
        if problems := _key_problems(key):
            raise CommandError(f"{quote(key)} is not a valid key name for a ConfigMap: {','.join(problems)}")
        for where, values in (("Data", data), ("BinaryData", binary)):
            if key in values:
                raise CommandError(
                    f'cannot add key {quote(key)}, another key by that name already exists in {where} for ConfigMap "{name}"'
                )
        try:
            data[key] = content.decode()
        except UnicodeDecodeError:
            binary[key] = base64.b64encode(content).decode()

    _add_sources(factory, add, "config")
    obj: Object = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata(factory, name)}
    obj |= {"data": dict(sorted(data.items()))} if data else {}
    obj |= {"binaryData": dict(sorted(binary.items()))} if binary else {}
    if factory.flags.get_bool("append-hash"):
        obj["metadata"]["name"] += "-" + _hash({"data": {}, **obj}, ("data", "binaryData"))
    return await create(factory, obj, "configmaps", "failed to create configmap:")


class _Secret:
    """A secret under construction."""

    def __init__(self, factory: Factory, name: str, kind: str) -> None:
        self._factory, self._name, self._kind = factory, name, kind
        self._data: dict[str, str] = {}

    def add(self, key: str, content: bytes) -> None:
        if problems := _key_problems(key):
            raise CommandError(f"{quote(key)} is not valid key name for a Secret {';'.join(problems)}")
        if key in self._data:
            raise CommandError(f"cannot add key {key}, another key by that name already exists")
        self._data[key] = base64.b64encode(content).decode()

    async def create(self, program: str) -> int:
        obj: Object = {"kind": "Secret", "apiVersion": "v1", "metadata": metadata(self._factory, self._name)}
        obj |= {"data": dict(sorted(self._data.items()))} if self._data else {}
        obj |= {"type": self._kind} if self._kind else {}
        if self._factory.flags.get_bool("append-hash"):
            obj["metadata"]["name"] += "-" + _hash({"data": {}, "type": "", **obj}, ("data", "type"))
        return await create(self._factory, obj, "secrets", "failed to create secret")


async def _generic(factory: Factory, program: str) -> int:
    name = one_name(factory, program)
    _check_environment_alone(factory)
    secret = _Secret(factory, name, factory.flags.get_string("type"))
    _add_sources(factory, secret.add, "secret")
    return await secret.create(program)


async def _docker_registry(factory: Factory, program: str) -> int:
    flags = factory.flags
    secret = _Secret(factory, one_name(factory, program), "kubernetes.io/dockerconfigjson")
    user, password = flags.get_string("docker-username"), flags.get_string("docker-password")
    server, email = flags.get_string("docker-server"), flags.get_string("docker-email")
    files = [one if "=" in one else f".dockerconfigjson={one}" for one in flags.get_list("from-file")]
    if not files and not (user and password and server):
        raise CommandError(
            "either --from-file or the combination of --docker-username, --docker-password and --docker-server is required"
        )
    for one in files:
        _add_file(one, secret.add)
    if not files:
        entry = {"username": user, "password": password} | ({"email": email} if email else {})
        entry["auth"] = base64.b64encode(f"{user}:{password}".encode()).decode()
        secret.add(".dockerconfigjson", json_text({"auths": {server: entry}}, ordered=False).encode())
    return await secret.create(program)


async def _tls(factory: Factory, program: str) -> int:
    flags = factory.flags
    secret = _Secret(factory, one_name(factory, program, required=False), "kubernetes.io/tls")
    certificate, key = flags.get_string("cert"), flags.get_string("key")
    if not certificate or not key:
        raise CommandError("key and cert must be specified")
    pair = [_read(path) for path in (certificate, key)]
    _check_pair(*pair)
    for name, content in zip(("tls.crt", "tls.key"), pair, strict=True):
        secret.add(name, content)
    return await secret.create(program)


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        verb = "read" if isinstance(error, IsADirectoryError) else "open"
        raise CommandError(f"Cannot read file {path}, {verb} {path}: {str(error.strerror).lower()}") from None


def _check_pair(certificate: bytes, key: bytes) -> None:
    """Raises CommandError unless the key belongs to the certificate."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    for what, content in (("certificate", certificate), ("key", key)):
        if b"-----BEGIN " not in content:
            raise CommandError(f"tls: failed to find any PEM data in {what} input")
    try:
        public = x509.load_pem_x509_certificate(certificate).public_key()
        private = load_pem_private_key(key, None).public_key()
    except (ValueError, TypeError) as error:
        raise CommandError(f"tls: {error}") from None
    if public != private:
        raise CommandError("tls: private key does not match public key")


_SOURCES = (
    *CREATE,
    Flag("from-file", "list", help="A file, or a directory of files; KEY=FILE gives it another key than its name."),
    Flag("from-literal", "array", help="A key and its value, KEY=VALUE; may be repeated."),
    Flag("from-env-file", "list", help="A file with lines of KEY=VALUE."),
    Flag("append-hash", "bool", help="Add a hash of the content to the name."),
)
_HASH = Flag("append-hash", "bool", help="Add a hash of the content to the name.")
CONFIG_MAP = Command(
    "configmap", "Create a config map from files or values", _config_map,
    Help(
        "NAME [--from-file=[KEY=]FILE] [--from-literal=KEY=VALUE] [--from-env-file=FILE]", "",
        ("Make one of a directory", "create configmap site --from-file=conf/"),
        ("Make one of values", "create configmap site --from-literal=color=red --from-literal=size=3"),
    ),
    *_SOURCES,
    aliases=("cm",),
)  # fmt: skip
SECRET = Command(
    "secret", "Create a secret", help=Help("(docker-registry | generic | tls)", "Creates a secret of one of three forms."),
    subcommands=(
        Command(
            "docker-registry", "Create a secret for a container registry", _docker_registry,
            Help(
                "NAME --docker-username=USER --docker-password=PASSWORD [--docker-server=URL]", "",
                ("Make one for a registry", "create secret docker-registry hub --docker-username=a --docker-password=b"),
            ),
            *CREATE,
            Flag("docker-username", help="The user."), Flag("docker-password", help="The password."),
            Flag("docker-email", help="The mail address."),
            Flag("docker-server", default="https://index.docker.io/v1/", help="The address of the registry."),
            Flag("from-file", "list", help="A file in the form of ~/.docker/config.json."), _HASH,
        ),
        Command(
            "generic", "Create a secret from files or values", _generic,
            Help(
                "NAME [--type=TYPE] [--from-file=[KEY=]FILE] [--from-literal=KEY=VALUE]", "",
                ("Make one of a value", "create secret generic login --from-literal=password=secret"),
            ),
            *_SOURCES, Flag("type", help="The type of the secret."),
        ),
        Command(
            "tls", "Create a secret with a certificate and its key", _tls,
            Help("NAME --cert=FILE --key=FILE", "", ("Make one", "create secret tls web --cert=web.crt --key=web.key")),
            *CREATE, _HASH,
            Flag("cert", help="The file of the certificate (PEM)."), Flag("key", help="The file of the key (PEM)."),
        ),
    ),
)  # fmt: skip
