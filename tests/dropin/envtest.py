"""What test tools do with the programs in an assets directory: the command lines, checks and signals of
controller-runtime's ``pkg/internal/testing`` and of jenvtest, in Python."""

from __future__ import annotations

import datetime
import functools
import http.client
import json
import re
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kapi.dropin.assets import PROGRAMS
from tests import fork_server
from tests.certificates import common_name, key_pem, pem, sign
from tests.store.servers import free_port

_DAY = datetime.timedelta(days=1)


class TinyCA:
    """A CA with EC keys, as controller-runtime's ``certs.TinyCA`` (which has RSA ones)."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = sign(common_name("envtest-environment"), self.key, ca=True)

    def issue(self, common: str, groups: list[str], names: list[str]) -> tuple[bytes, bytes]:
        """Certificate and key of a user, or of a server when it has names."""
        key = ec.generate_private_key(ec.SECP256R1())
        parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common)])
        usage = ExtendedKeyUsageOID.SERVER_AUTH if names else ExtendedKeyUsageOID.CLIENT_AUTH
        return pem(sign(subject, key, (self.certificate, self.key), hosts=names, usage=usage)), key_pem(key)


def self_signed(common: str, organization: str = "", address: str = "") -> tuple[bytes, bytes]:
    """A pair as jenvtest makes it: RSA, no extension but names."""
    import ipaddress

    key = rsa.generate_private_key(65537, 2048)
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    name = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(int(time.time() * 1000)).not_valid_before(now).not_valid_after(now + 365 * _DAY)
    )  # fmt: skip
    if address:
        found = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        builder = builder.add_extension(found, critical=False)
    return pem(builder.sign(key, hashes.SHA256())), key_pem(key)


@functools.cache
def help_text(program: Path) -> str:
    done = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout + done.stderr


def knows_flag(program: Path, flag: str) -> bool:
    """controller-runtime's way to ask: a line of the help text begins with it."""
    return re.search(rf"(?m)^\s*--{flag}\b", help_text(program)) is not None


class Program:
    """A process that is well when a URL answers 200.

    ``forked`` is for tests that do not look at how it starts: the module that its script runs, by the fork server.
    """

    def __init__(self, command: list[str], health: str, *, forked: bool = False) -> None:
        self.output = tempfile.TemporaryFile()
        self.began = time.monotonic()
        self.process: subprocess.Popen[bytes] | fork_server.ForkedProcess
        if forked:
            module = PROGRAMS[Path(command[0]).name]
            self.process = fork_server.spawn(command[1:], module, output=self.output.fileno())
        else:
            self.process = subprocess.Popen(command, stdout=self.output, stderr=self.output)
        try:
            self._wait(health)
        except BaseException:
            self.kill()
            raise

    def text(self) -> str:
        self.output.seek(0)
        return self.output.read().decode("utf-8", "replace")

    def _wait(self, health: str, seconds: float = 120.0) -> None:
        while True:
            assert self.process.poll() is None, f"it has ended:\n{self.text()}"
            try:
                if ask(health)[0] == 200:
                    return
            except OSError:
                pass
            assert time.monotonic() < self.began + seconds, f"it does not become well:\n{self.text()}"
            time.sleep(0.02)

    def stop(self, number: int = signal.SIGTERM, seconds: float = 120.0) -> int:
        self.process.send_signal(number)
        try:
            return self.process.wait(seconds)
        finally:
            self.kill()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def ask(
    url: str,
    *,
    verify: bytes = b"",
    certificate: tuple[bytes, bytes] | None = None,
    method: str = "GET",
    body: Any = None,
) -> tuple[int, Any]:
    """Status and decoded answer; without ``verify`` the server may be anybody, as in a health check."""
    scheme, _, rest = url.partition("://")
    where, _, path = rest.partition("/")
    if scheme == "http":
        connection = http.client.HTTPConnection(where, timeout=120)
    else:
        connection = http.client.HTTPSConnection(where, timeout=120, context=context(verify, certificate))
    try:
        given = None if body is None else json.dumps(body)
        connection.request(method, f"/{path}", given, {"Content-Type": "application/json"} if given else {})
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if "json" in (answer.headers["Content-Type"] or "") else text.decode()
    finally:
        connection.close()


def context(verify: bytes, certificate: tuple[bytes, bytes] | None = None) -> ssl.SSLContext:
    made = ssl.create_default_context(cadata=verify.decode()) if verify else ssl._create_unverified_context()
    if certificate is not None:
        with tempfile.NamedTemporaryFile() as both:
            both.write(certificate[0] + certificate[1])
            both.flush()
            made.load_cert_chain(both.name)
    return made


class Etcd(Program):
    """As controller-runtime starts it."""

    def __init__(self, assets: Path, directory: Path, *, forked: bool = False) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        flags = {
            "advertise-client-urls": self.url, "data-dir": directory, "listen-client-urls": self.url,
            "listen-peer-urls": f"http://127.0.0.1:{free_port()}",
        }  # fmt: skip
        if knows_flag(assets / "etcd", "unsafe-no-fsync"):
            flags["unsafe-no-fsync"] = "true"
        super().__init__(
            [str(assets / "etcd"), *(f"--{name}={value}" for name, value in sorted(flags.items()))],
            f"{self.url}/health",
            forked=forked,
        )


class ApiServer(Program):
    """As controller-runtime starts it: its own CA, its own pair in ``--cert-dir``."""

    def __init__(self, assets: Path, directory: Path, etcd: str, *, forked: bool = False, **more: str) -> None:
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.directory = directory
        serving, users, accounts = TinyCA(), TinyCA(), TinyCA()
        self.authority = pem(serving.certificate)
        self.users = users
        certificate, key = serving.issue("localhost", [], ["localhost", "127.0.0.1"])
        for name, content in (
            ("apiserver.crt", certificate), ("apiserver.key", key), ("client-cert-auth-ca.crt", pem(users.certificate)),
            ("sa-signer.crt", pem(accounts.certificate)), ("sa-signer.key", key_pem(accounts.key)),
        ):  # fmt: skip
            (directory / name).write_bytes(content)
        flags = {
            "allow-privileged": "true", "authorization-mode": "RBAC", "bind-address": "127.0.0.1",
            "cert-dir": str(directory), "client-ca-file": str(directory / "client-cert-auth-ca.crt"),
            "disable-admission-plugins": "ServiceAccount", "etcd-servers": etcd, "secure-port": str(self.port),
            "service-account-issuer": f"{self.url}/", "service-account-key-file": str(directory / "sa-signer.crt"),
            "service-account-signing-key-file": str(directory / "sa-signer.key"),
            "service-cluster-ip-range": "10.0.0.0/24",
            **{name.replace("_", "-"): value for name, value in more.items()},
        }  # fmt: skip
        if knows_flag(assets / "kube-apiserver", "insecure-port"):
            flags["insecure-port"] = "0"
        super().__init__(
            [str(assets / "kube-apiserver"), *(f"--{name}={value}" for name, value in sorted(flags.items()))],
            f"{self.url}/healthz",
            forked=forked,
        )
        self.admin = users.issue("admin", ["system:masters"], [])

    def ask(self, path: str, method: str = "GET", body: Any = None) -> tuple[int, Any]:
        """As the administrator, who knows the CA."""
        return ask(self.url + path, verify=self.authority, certificate=self.admin, method=method, body=body)


class Environment:
    """Both, in temporary directories that go away at the end."""

    def __init__(self, assets: Path, *, forked: bool = False, **more: str) -> None:
        self.assets = assets
        self.data = Path(tempfile.mkdtemp(prefix="k8s_test_framework_"))
        self.certificates = Path(tempfile.mkdtemp(prefix="k8s_test_framework_"))
        self.etcd = Etcd(assets, self.data, forked=forked)
        try:
            self.server = ApiServer(assets, self.certificates, self.etcd.url, forked=forked, **more)
        except BaseException:
            self.etcd.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.kill()
        self.etcd.stop()
        shutil.rmtree(self.data)
        shutil.rmtree(self.certificates)
