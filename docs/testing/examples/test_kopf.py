"""A kopf operator in a process of its own; kubectl to drive it."""

import subprocess
import sys
from pathlib import Path

import pytest

OPERATOR = Path(__file__).with_name("widget_operator.py")


@pytest.fixture
def operator(kapi):
    command = [sys.executable, "-m", "kopf", "run", "--standalone", "-n", kapi.namespace, str(OPERATOR)]
    process = subprocess.Popen(command, env=kapi.environment())
    yield process
    process.terminate()
    process.wait(120)


@pytest.mark.kapi(crds="widgets.yaml")
def test_the_operator_sees_a_widget(kapi, kubectl, operator):
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}, "spec": {"size": 3}}
    kubectl("create", input=widget)
    found = kapi.wait(lambda: kubectl("get", "widget", "one").get("status", {}).get("text"))
    assert found == "size 3"
    kubectl("delete", "widget", "one")
