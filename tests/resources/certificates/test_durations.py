"""Certificates that were issued for a requested duration are counted when they are stored."""

from __future__ import annotations

import datetime

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from kapi.machinery.tree import Object
from kapi.resources.certificates.certificatesigningrequests import HONORED, REQUESTED
from tests.certificates import sign
from tests.controllers.served import MERGE, Served
from tests.resources.certificates.test_requests import encoded, request
from tests.rsa_keys import rsa_key

PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
HOUR = 3600
CLIENT = "kubernetes.io/kube-apiserver-client"


def issued(seconds: int) -> str:
    start = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "jane")])
    signed = sign(name, rsa_key("issuer"), start=start, end=start + datetime.timedelta(seconds=seconds))
    return encoded(signed.public_bytes(Encoding.DER), "CERTIFICATE")


class DurationsTest(Served):
    async def setUp(self) -> None:
        await self.begin()
        for counter in (REQUESTED, HONORED):
            self.addCleanup(setattr, counter, "rows", counter.rows)
            counter.rows = {}

    def request(self, name: str, signer: str = CLIENT, seconds: int | None = HOUR) -> str:
        spec: Object = {"request": request(), "signerName": signer, "usages": ["client auth"]}
        if seconds is not None:
            spec["expirationSeconds"] = seconds
        self.create(PATH, {"metadata": {"name": name}, "spec": spec})
        return f"{PATH}/{name}/status"

    def issue(self, status: str, certificate: str, query: str = "", expect: int = 200) -> None:
        self.call("PATCH", status + query, {"status": {"certificate": certificate}}, expect, MERGE)

    def test_a_certificate_counts_once_by_signer_and_when_its_duration_is_about_the_requested(self) -> None:
        for number, seconds in enumerate((HOUR, HOUR + 479, HOUR - 479, HOUR + 480, HOUR - 480)):
            self.issue(self.request(f"r{number}"), issued(seconds))
        self.assertEqual((REQUESTED.rows, HONORED.rows), ({(CLIENT,): 5}, {(CLIENT,): 3}))
        self.issue(self.request("theirs", "example.com/signer"), issued(HOUR))
        self.call("PATCH", f"{PATH}/theirs/status", {"metadata": {"labels": {"a": "b"}}}, 200, MERGE)
        self.assertEqual((REQUESTED.rows[("other",)], HONORED.rows[("other",)]), (1, 1))

    def test_only_what_is_stored_for_a_requested_duration_counts(self) -> None:
        self.issue(self.request("any", seconds=None), issued(HOUR))
        status = self.request("r")
        self.issue(status, issued(HOUR), "?dryRun=All")
        self.issue(status, "bm9uZQ==", expect=422)
        self.call("PATCH", status, {"metadata": {"labels": {"a": "b"}}}, 200, MERGE)
        self.assertEqual((REQUESTED.rows, HONORED.rows), ({}, {}))
