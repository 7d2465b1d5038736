"""The client commands for programs: ``Kubectl`` runs all of them in its process."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from twisted.trial.unittest import TestCase

from kapi.kubectl import Kubectl, KubectlError
from kapi.kubectl.commands import COMMANDS, client_command
from tests.integration.server_process import ForkedServer


class KubectlCase(TestCase):
    timeout = 120

    async def test_a_pod_is_run_exposed_scaled_edited_and_deleted(self) -> None:
        server = self.enterContext(ForkedServer())
        file = f"--kubeconfig={server.environment()['KUBECONFIG']}"
        self.patch(os, "environ", {**os.environ, "KUBE_EDITOR": "sed -i s/app:.a/app:\\ b/"})
        kubectl = Kubectl()

        async def said(line: str, **more: str) -> str:
            return await kubectl(*line.split(), file, **more)

        self.assertEqual(await said("run a --image=x --port=80 -l app=a"), "pod/a created\n")
        self.assertEqual(await said("expose pod a"), "service/a exposed\n")
        self.assertEqual(await said("create deployment d --image=x"), "deployment.apps/d created\n")
        self.assertEqual(
            await said("autoscale deployment d --max=3"), "horizontalpodautoscaler.autoscaling/d autoscaled\n"
        )
        self.assertEqual(await said("edit service a"), "service/a edited\n")
        selector = json.loads(await said("get service a -o json"))["spec"]["selector"]
        self.assertEqual(selector, {"app": "b"})
        manifest = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"}}'
        self.assertEqual(await said("apply -f -", input=manifest), "configmap/m created\n")
        with self.assertRaises(KubectlError) as caught:
            await said("run a --image=x")
        failed = caught.exception
        self.assertEqual((failed.code, failed.stdout), (1, ""))
        self.assertEqual(failed.stderr, 'Error from server (AlreadyExists): pods "a" already exists\n')

    async def test_kubeconfig_files_are_changed(self) -> None:
        file = Path(self.enterContext(tempfile.TemporaryDirectory()), "config")
        kubectl = Kubectl()
        self.assertEqual(
            await kubectl("config", "set-cluster", "c", "--server=https://c", f"--kubeconfig={file}"),
            'Cluster "c" set.\n',
        )
        self.assertEqual(await kubectl("config", "get-clusters", f"--kubeconfig={file}"), "NAME\nc\n")

    def test_all_commands_are_known(self) -> None:
        for name in COMMANDS:
            self.assertEqual(client_command([name, "x"]), [name, "x"])

    async def test_what_is_no_command_is_refused(self) -> None:
        with self.assertRaises(ValueError):
            await Kubectl()("backup", "file")
