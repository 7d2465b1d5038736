"""What a table of command lines cannot show: watches, standard input, files behind URLs, waiting, completion."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import termios
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from kapi.testing.process import KapiProcess
from tests import fork_server
from tests.integration.server_process import ForkedServer
from tests.waiting import lines_until, until

MAP = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "%s"}, "data": {"a": "1"}}'


@pytest.fixture(scope="module")
def cluster() -> Iterator[KapiProcess]:
    with ForkedServer() as kapi:
        yield kapi


def kapi(cluster: KapiProcess, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return fork_server.run(list(arguments), env=cluster.environment(), stdin=stdin)


@contextmanager
def started(cluster: KapiProcess, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "kapi", *arguments]
    with subprocess.Popen(command, env=cluster.environment(), stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_standard_input(cluster: KapiProcess) -> None:
    assert kapi(cluster, "create", "-f", "-", stdin=MAP % "piped").stdout == "configmap/piped created\n"
    yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: piped}\n"
    assert kapi(cluster, "delete", "-f", "-", stdin=yaml).stdout == 'configmap "piped" deleted from default namespace\n'


def test_a_file_behind_a_url(cluster: KapiProcess) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = (MAP % "fetched").encode()
            self.send_response(200 if self.path == "/a.json?x=1" else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *what: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert kapi(cluster, "create", "-f", f"{url}/a.json?x=1").stdout == "configmap/fetched created\n"
        done = kapi(cluster, "create", "-f", f"{url}/b.json")
        server.shutdown()
    assert done.returncode == 1
    assert done.stderr.startswith(f'error: unable to read URL "{url}/b.json", server reported 404')


def test_a_watch_shows_what_there_is_and_what_changes(cluster: KapiProcess) -> None:
    kapi(cluster, "create", "-f", "-", stdin=MAP % "watched")
    with started(cluster, "get", "cm", "watched", "-w", "--output-watch-events", "--no-headers") as watch:
        assert watch.stdout is not None
        assert watch.stdout.readline().split()[:3] == ["ADDED", "watched", "1"]
        more = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "watched"}, "data": {"b": "2"}}'
        kapi(cluster, "apply", "--server-side", "-f", "-", stdin=more)
        assert watch.stdout.readline().split()[:3] == ["MODIFIED", "watched", "2"]
        kapi(cluster, "delete", "cm", "watched")
        assert watch.stdout.readline().split()[:2] == ["DELETED", "watched"]
        watch.terminate()


def test_a_watch_ends_by_a_signal_without_a_word(cluster: KapiProcess) -> None:
    kapi(cluster, "create", "-f", "-", stdin=MAP % "interrupted")
    with subprocess.Popen(
        [sys.executable, "-m", "kapi", "get", "cm", "interrupted", "-w", "-o", "name"],
        env=cluster.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as watch:  # fmt: skip
        assert watch.stdout is not None and watch.stderr is not None
        assert watch.stdout.readline() == "configmap/interrupted\n"
        watch.send_signal(signal.SIGINT)
        assert watch.wait(120) == 1
        assert watch.stderr.read() == ""


def test_deleting_asks_first_where_that_is_wanted(cluster: KapiProcess) -> None:
    kapi(cluster, "create", "-f", "-", stdin=MAP % "asked")
    question = "You are about to delete the following 1 resource(s):\nconfigmap/asked\nDo you want to continue? (y/N): "
    assert kapi(cluster, "delete", "-i", "cm", "asked", stdin="n\n").stdout == f"{question}deletion is cancelled\n"
    agreed = kapi(cluster, "delete", "-i", "cm", "asked", stdin="y\n").stdout
    assert agreed == f'{question}configmap "asked" deleted from default namespace\n'


def test_raw_requests(cluster: KapiProcess) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    made = kapi(cluster, "create", "--raw", path, "-f", "-", stdin=MAP % "bare")
    assert (made.returncode, made.stderr) == (0, "")
    assert '"name":"bare"' in made.stdout
    assert '"status":"Success"' in kapi(cluster, "delete", "--raw", f"{path}/bare").stdout
    assert kapi(cluster, "get", "cm", "bare").stderr == 'Error from server (NotFound): configmaps "bare" not found\n'


def test_standard_input_is_read_once(cluster: KapiProcess) -> None:
    done = kapi(cluster, "create", "-f", "-", "-f", "-", stdin=MAP % "twice")
    assert (done.returncode, done.stderr) == (1, "error: standard input cannot be used for multiple arguments\n")


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_who_is_stopped_while_it_prints_goes_on_where_it_was(cluster: KapiProcess, unbuffered: str) -> None:
    path = "/openapi/v2"
    whole = kapi(cluster, "get", "--raw", path).stdout
    reading, writing = os.pipe()
    environment = {**cluster.environment(), "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen([sys.executable, "-m", "kapi", "get", "--raw", path], env=environment, stdout=writing) as get:
        os.close(writing)

        def unread() -> int:
            return int.from_bytes(fcntl.ioctl(reading, termios.FIONREAD, bytes(4)), sys.byteorder)

        size = fcntl.fcntl(reading, fcntl.F_GETPIPE_SZ)
        until(lambda: unread() == size)
        get.send_signal(signal.SIGSTOP)
        until(lambda: stopped(get.pid))
        get.send_signal(signal.SIGCONT)
        with open(reading, encoding="utf-8", newline="") as pipe:
            assert pipe.read() == whole
        assert get.wait(120) == 0


def test_watch_only_begins_with_the_next_change(cluster: KapiProcess) -> None:
    kapi(cluster, "create", "-f", "-", stdin=MAP % "before")
    with started(cluster, "get", "cm", "--watch-only", "-o", "name", "--field-selector=metadata.name!=before") as watch:
        assert watch.stdout is not None
        line: list[str] = []
        reader = threading.Thread(target=lambda: line.append(watch.stdout.readline()))  # type: ignore[union-attr]
        reader.start()
        for number in itertools.count():
            assert kapi(cluster, "create", "-f", "-", stdin=MAP % f"next-{number}").returncode == 0
            reader.join(0.05)
            if line:
                break
        assert line[0].startswith("configmap/next-")
        watch.terminate()


def test_waiting_ends_when_it_is_so(cluster: KapiProcess) -> None:
    kapi(cluster, "create", "-f", "-", stdin=MAP % "slow")
    with started(cluster, "wait", "cm/slow", "--for=jsonpath={.data.b}=2", "--timeout=120s") as wait:
        more = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "slow"}, "data": {"b": "2"}}'
        kapi(cluster, "apply", "--server-side", "-f", "-", stdin=more)
        assert wait.communicate(timeout=120)[0] == "configmap/slow condition met\n"
    with started(cluster, "wait", "cm/slow", "--for=delete", "--timeout=120s") as wait:
        kapi(cluster, "delete", "cm", "slow")
        assert wait.wait(120) == 0


def test_a_rollout_is_followed_longer_than_a_watch_lasts() -> None:
    with ForkedServer("--min-request-timeout=1") as server:
        kapi(server, "create", "deployment", "slow", "--image=x")
        ended = re.compile(r'apiserver_request_total\{.*resource="deployments".*verb="WATCH"')
        with started(server, "rollout", "status", "deployment/slow") as status:
            until(lambda: ended.search(kapi(server, "get", "--raw=/metrics").stdout))
            ready = dict.fromkeys(("observedGeneration", "replicas", "updatedReplicas", "availableReplicas"), 1)
            patch = json.dumps({"status": {**ready, "readyReplicas": 1}})
            kapi(server, "patch", "deployment", "slow", "--subresource=status", "--type=merge", "-p", patch)
            assert status.communicate(timeout=120)[0].splitlines()[-1] == 'deployment "slow" successfully rolled out'
            assert status.returncode == 0
        kapi(server, "patch", "deployment", "slow", "--type=merge", '-p={"spec":{"replicas":2}}')
        with started(server, "rollout", "status", "deployment/slow") as status:
            lines_until(status, "Waiting")
            kapi(server, "delete", "deployment", "slow")
            assert status.wait(120) == 1


def test_deleting_waits_for_finalizers(cluster: KapiProcess) -> None:
    held = MAP.replace('"name": "%s"', '"name": "held", "finalizers": ["example.com/wait"]')
    kapi(cluster, "create", "-f", "-", stdin=held)
    done = kapi(cluster, "delete", "cm", "held", "--timeout=500ms")
    assert (done.stdout, done.returncode) == ('configmap "held" deleted from default namespace\n', 1)
    assert done.stderr == "error: timed out waiting for the condition on configmaps/held\n"
    assert kapi(cluster, "delete", "cm", "held", "--wait=false").returncode == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(cluster: KapiProcess, shell: str) -> None:
    script = kapi(cluster, "completion", shell).stdout
    assert "api-resources" in script and "show-labels" in script
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"no {shell}")
    assert subprocess.run([path, "-n"], input=script, text=True, capture_output=True).returncode == 0
    if shell == "bash":
        words = "COMP_WORDS=(kapi get --show-l) COMP_CWORD=2; _kapi; echo ${COMPREPLY[@]}"
        done = subprocess.run([path, "-c", f"{script}\n{words}"], text=True, capture_output=True, env=dict(os.environ))
        assert done.stdout == "--show-labels\n"


def test_nobody_reads_the_output(cluster: KapiProcess) -> None:
    """As ``kapi ... | true``: it ends, and says nothing of it."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "kapi", "api-resources"], env=cluster.environment(), stdout=writing,
        stderr=subprocess.PIPE, text=True, timeout=120,
    )  # fmt: skip
    os.close(writing)
    assert (done.stderr, done.returncode) == ("", 1)


@contextmanager
def proxied(cluster: KapiProcess, *arguments: str) -> Iterator[str]:
    with started(cluster, "proxy", "--port=0", *arguments) as proxy:
        assert proxy.stdout is not None
        line = proxy.stdout.readline()
        assert line.startswith("Starting to serve on 127.0.0.1:")
        yield f"http://{line.split()[-1]}"


def asked(url: str, **headers: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=120) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_proxy_at_no_port(cluster: KapiProcess, port: int) -> None:
    done = kapi(cluster, "proxy", f"--port={port}")
    assert (done.stdout, done.stderr, done.returncode) == ("", f"error: listen tcp: address {port}: invalid port\n", 1)


def test_a_proxy_sends_requests_with_the_users_credentials(cluster: KapiProcess, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("static")
    with proxied(cluster, f"--www={tmp_path}") as url:
        assert asked(f"{url}/api/v1/namespaces/default?pretty=1")[0] == 200
        body = (MAP % "proxied").encode()
        request = urllib.request.Request(
            f"{url}/api/v1/namespaces/default/configmaps", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            assert answer.status == 201
        watch = f"{url}/api/v1/namespaces/default/configmaps?watch=1&fieldSelector=metadata.name=proxied"
        with urllib.request.urlopen(watch, timeout=120) as events:
            assert b'"ADDED"' in events.readline()  # while the watch goes on
        assert asked(f"{url}/api/v1/namespaces/default/configmaps/nope")[0] == 404
        assert asked(f"{url}/static/a.txt") == (200, b"static")


class _Unfollowed(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def test_a_proxy_serves_files_and_directories_as_go_does(cluster: KapiProcess, tmp_path: Path) -> None:
    page = tmp_path / "page"
    page.mkdir()
    (page / "index.html").write_text("first")
    (tmp_path / "<a'b\".txt").write_text("0123456789")
    (tmp_path / "out").symlink_to("/etc")
    opener = urllib.request.build_opener(_Unfollowed)

    def got(path: str, **headers: str) -> tuple[int, str, bytes]:
        try:
            with opener.open(urllib.request.Request(url + path, headers=headers), timeout=120) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers["Location"] or "", error.read()

    rows = (
        '<a href="%3Ca%27b%22.txt">&lt;a&#39;b&#34;.txt</a>\n'
        '<a href="out">out</a>\n<a href="page/">page/</a>\n'
    )  # fmt: skip
    listing = f'<!doctype html>\n<meta name="viewport" content="width=device-width">\n<pre>\n{rows}</pre>\n'
    with proxied(cluster, f"--www={tmp_path}") as url:
        assert got("/static/") == (200, "text/html; charset=utf-8", listing.encode())
        assert got("/static/%3Ca'b%22.txt") == (200, "text/plain; charset=utf-8", b"0123456789")
        assert got("/static/page/", **{"If-Modified-Since": "Fri, 31 Dec 2100 00:00:00 GMT"})[0] == 304
        assert got("/static/page/") == (200, "text/html; charset=utf-8", b"first")
        assert got("/static/page") == (301, "page/", b"")
        assert got("/static/page/index.html") == (301, "./", b"")
        assert got("/static/%3Ca'b%22.txt/") == (301, "../%3Ca%27b%22.txt", b"")
        moved = b'<a href="%s">Temporary Redirect</a>.\n\n'
        assert got("/static") == (307, "/static/", moved % b"/static/")
        assert got("//static/../version?a=1") == (307, "/version?a=1", moved % b"/version?a=1")
        for absent in ("none", "out", "out/hostname"):
            assert got(f"/static/{absent}") == (404, "", b"404 page not found\n")
    with proxied(cluster, "--api-prefix=/custom") as url:
        assert got("/custom") == (307, "/custom/", moved % b"/custom/")
        assert got("//custom/version")[:2] == (307, "/custom/version")


def test_a_proxy_refuses_what_its_filter_refuses(cluster: KapiProcess) -> None:
    with proxied(cluster, "--api-prefix=/k8s", "--reject-paths=/secrets") as url:
        assert asked(f"{url}/k8s/version")[0] == 200
        assert asked(f"{url}/version") == (404, b"404 page not found\n")
        assert asked(f"{url}/k8s/api/v1/secrets") == (403, b"Forbidden\n")
        assert asked(f"{url}/k8s/version", Host="evil.example.com")[0] == 403


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("[", "missing closing ]: `[`"),
        ("a,b(", "missing closing ): `b(`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
    ],
)
def test_a_proxy_with_a_broken_filter(cluster: KapiProcess, pattern: str, why: str) -> None:
    """The patterns are Go's; kubectl's message has the time and the number of its process before it."""
    done = kapi(cluster, "proxy", "--port=0", f"--reject-paths={pattern}")
    wanted = f"error: Error compiling re: error parsing regexp: {why}\n"
    assert (done.stdout, done.stderr, done.returncode) == ("", wanted, 255)


def test_requests_are_shown_without_credentials(cluster: KapiProcess) -> None:
    done = kapi(cluster, "get", "cm", "-v=6", "-o", "name")
    assert re.search(
        r'\] "Response" verb="GET" url="https://[^"]*/configmaps\?limit=500" status="200 OK" milliseconds=\d+\n',
        done.stderr,
    )
    assert "headers" not in done.stderr
    token = "--token=secret-token"
    for level in "7", "8", "9":
        done = kapi(cluster, "get", "cm", "-v", level, token, "-o", "name")
        assert "Authorization: Bearer <masked>" in done.stderr and "secret-token" not in done.stderr
        assert ('"Response Body" body=' in done.stderr) == (level != "7")
        assert ("\tContent-Type: application/json\n" in done.stderr) == (level != "7")
        assert ('] "Response" status="200 OK"' in done.stderr) == (level != "9")


def test_a_request_is_shown_as_a_command_line_of_curl(cluster: KapiProcess) -> None:
    done = kapi(cluster, "get", "--raw=/api/v1/namespaces/default?x=y", "-v=9")
    command = re.search(r"\t(curl -v -XGET  -H .*)\n >\n", done.stderr)
    assert command is not None
    *_, place = shlex.split(command[1])
    assert place.endswith("/api/v1/namespaces/default?x=y")
    assert command[1].endswith(f" '{place}'")


def test_of_long_bodies_the_beginning_is_shown(cluster: KapiProcess) -> None:
    size = len(kapi(cluster, "get", "--raw=/openapi/v3/apis/apps/v1").stdout)
    for level, most in ("8", 1024), ("9", 10240):
        done = kapi(cluster, "get", "--raw=/openapi/v3/apis/apps/v1", f"-v={level}")
        assert f" [truncated {size - most} chars]" in done.stderr
    assert " [truncated " not in kapi(cluster, "get", "--raw=/openapi/v3/apis/apps/v1", "-v=10").stderr


def test_a_kustomization_is_built_by_kustomize(cluster: KapiProcess, tmp_path: Path) -> None:
    """A script stands for the program."""
    directory = tmp_path / "kustomization"
    directory.mkdir()
    environment = {**cluster.environment(), "PATH": str(tmp_path)}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return fork_server.run(list(arguments), env=environment)

    missing = (
        f"unable to find one of 'kustomization.yaml', 'kustomization.yml' or 'Kustomization' in directory '{directory}'"
    )
    assert run("apply", "-k", str(directory)).stderr == f"error: {missing}\n"
    (directory / "kustomization.yaml").write_text("")
    assert "kustomize or kubectl, and none of them is on the PATH" in run("kustomize", str(directory)).stderr
    program = tmp_path / "kubectl"
    program.write_text("#!/bin/sh\necho $1 of kubectl\n")
    program.chmod(0o755)
    assert run("kustomize", str(directory)).stdout == "kustomize of kubectl\n"
    program = tmp_path / "kustomize"
    program.write_text(f"#!/bin/sh\necho '{MAP % 'built'}'\n")
    program.chmod(0o755)
    assert run("kustomize", str(directory)).stdout == f"{MAP % 'built'}\n"
    assert run("create", "-k", str(directory)).stdout == "configmap/built created\n"
    environment["KUBE_EDITOR"] = f"{shutil.which('sed')} -i /a:.*1/s/1/2/"
    edited = run("edit", "-k", str(directory))
    assert (edited.stdout, edited.stderr) == ("configmap/built edited\n", "")
    assert run("delete", "-k", str(directory)).stdout == 'configmap "built" deleted from default namespace\n'
    both = run("apply", "-k", str(directory), "-f", "x")
    assert (both.stderr, both.returncode) == ("error: only one of -f or -k can be specified\n", 1)


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (["--profile=cpu"], "error: profiles of Go are not written here; use python -m cProfile -m kapi ...\n"),
        (["--profile=foo"], "error: unknown profile 'foo'\n"),
        (
            ["--kuberc=no-such"],
            "error occurred while applying preferences kuberc error kuberc: open no-such: no such file or directory\n",
        ),
        (["--match-server-version", "--vmodule=a=1", "--log-flush-frequency=1s", "--profile=none"], ""),
    ],
)
def test_flags_of_all_commands(cluster: KapiProcess, flags: list[str], error: str) -> None:
    done = kapi(cluster, "get", "ns", "default", "-o", "name", *flags)
    assert (done.stdout, done.stderr) == ("" if error else "namespace/default\n", error)


def test_pruned_objects_are_gone_when_apply_waits(cluster: KapiProcess, tmp_path: Path) -> None:
    for name in ("pruned", "kept"):
        kapi(
            cluster,
            "apply",
            "-f",
            "-",
            stdin=(MAP % name).replace('"metadata": {', '"metadata": {"labels": {"p": "1"}, '),
        )
    file = tmp_path / "kept.json"
    file.write_text((MAP % "kept").replace('"metadata": {', '"metadata": {"labels": {"p": "1"}, '))
    prune = ("apply", "--prune", "--wait", "-l", "p=1", "--prune-allowlist=core/v1/ConfigMap", "-f", str(file))
    done = kapi(cluster, *prune, "--overwrite", "--openapi-patch=false")
    assert (done.stdout, done.stderr) == ("configmap/kept unchanged\nconfigmap/pruned pruned\n", "")
    assert kapi(cluster, "get", "cm", "pruned").returncode == 1


def test_apply_without_overwrite_changes_nothing_that_was_applied(cluster: KapiProcess, tmp_path: Path) -> None:
    """Not even what nobody else has changed: as in kubectl, the annotation itself is a change since the last apply."""
    file = tmp_path / "guarded.json"

    def apply(value: str, *flags: str) -> subprocess.CompletedProcess[str]:
        file.write_text((MAP % "guarded").replace('"a": "1"', f'"a": "{value}"'))
        return kapi(cluster, "apply", "--overwrite=false", "-f", str(file), *flags)

    assert apply("1").stdout == "configmap/guarded created\n"
    assert apply("1").stdout == "configmap/guarded unchanged\n"
    kapi(cluster, "patch", "cm", "guarded", "-p", '{"data": {"a": "mine"}}')
    done = apply("3")
    assert (done.stdout, done.returncode) == ("", 1)
    reason = (
        'patch:\ndata:\n  a: "3"\nmetadata:\n  annotations:\n    kubectl.kubernetes.io/last-applied-configuration: |\n'
    )
    specs = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert specs == [f"warning: error calculating patch from openapi{spec} spec: patch:" for spec in (" v3", "")]
    assert done.stderr.count(reason) == 3
    assert done.stderr.count("conflicts with changes made from original to current:\ndata:\n  a: mine\n") == 3
    kind = 'Resource: "/v1, Resource=configmaps", GroupVersionKind: "/v1, Kind=ConfigMap"'
    start = f"error: error when applying patch:\n\nto:\n{kind}\n"
    named = f'Name: "guarded", Namespace: "default"\nfor: "{file}": '
    assert f'{start}{named}error when patching "{file}": creating patch with:\noriginal:\n{{"apiVersion"' in done.stderr
    pretended = apply("3", "--openapi-patch=false", "--dry-run=client").stderr
    assert pretended.startswith(f"{start}{named}creating patch with:\n")
    assert pretended.count(reason) == 1
    kapi(cluster, "delete", "cm", "guarded")


@pytest.mark.parametrize(("line", "limit"), [("drain --chunk-size=7", 7), ("drain", 500), ("cordon", 500)])
def test_nodes_are_read_in_pages(cluster: KapiProcess, line: str, limit: int) -> None:
    done = kapi(cluster, *line.split(), "-l", "none=of-them", "-v=6")
    assert f"/api/v1/nodes?labelSelector=none%3Dof-them&limit={limit}" in done.stderr
