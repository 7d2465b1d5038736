"""OpenAPI documents of other servers, as the controller takes them in."""

from __future__ import annotations

import orjson

from tests.servers.aggregator.controller_case import ControllerCase


class DocumentTests(ControllerCase):
    def test_a_document_that_never_comes_delays_nothing_but_documents(self) -> None:
        self.make_available()
        path = "/openapi/v3/apis/a.example.com/v1?hash=A"
        paths = {"apis/a.example.com/v1": {"serverRelativeURL": path}}
        self.backend_client.answers["/openapi/v3"] = orjson.dumps({"paths": paths})
        self.backend_client.answers[path] = b"{}"
        self.clock.advance(31)
        self.turn()
        found = {key: (digest, document.text()) for key, (digest, document) in self.openapi.documents.items()}
        self.assertEqual(found, {"apis/a.example.com/v1": ("A", b"{}")})
        asked = self.backend_client.asked[:]
        self.clock.advance(31)
        self.turn()
        again = [asked for _, asked in self.backend_client.asked[len(asked) :] if asked.startswith("/openapi")]
        self.assertEqual(again, ["/openapi/v3"], "a document that is known is not read again")
        self.services.remove("v1.a.example.com")
        self.assertEqual(self.openapi.documents, {})

    def test_all_that_a_server_documents_is_taken_and_let_go(self) -> None:
        self.make_available()
        keys = ["apis", "apis/a.example.com", "apis/a.example.com/v1"]
        urls = {key: f"/openapi/v3/{key}?hash={len(key)}" for key in keys}
        answers = self.backend_client.answers
        answers["/openapi/v3"] = orjson.dumps({"paths": {key: {"serverRelativeURL": url} for key, url in urls.items()}})
        answers.update(dict.fromkeys(urls.values(), b"{}"))
        path = "/apis/a.example.com/v1/things"
        answers["/openapi/v2"] = orjson.dumps({"paths": {path: {}, "/version/": {}, "/apis/b/v1/x": {}}})
        self.clock.advance(31)
        self.turn()
        self.assertEqual(sorted(self.openapi.documents), keys)
        [(prefix, document)] = self.openapi.specifications()
        self.assertEqual((prefix, orjson.loads(document.text())["paths"]), ("/apis/a.example.com/v1/", {path: {}}))
        answers["/openapi/v3"] = orjson.dumps({"paths": {"apis": {"serverRelativeURL": urls["apis"]}}})
        self.clock.advance(31)
        self.turn()
        self.assertEqual(sorted(self.openapi.documents), ["apis"])
        self.services.remove("v1.a.example.com")
        self.assertEqual((self.openapi.documents, self.openapi.specifications()), ({}, []))

    def test_documents_of_other_group_versions_are_not_taken(self) -> None:
        """Else two servers, each behind an APIService of the other, would keep what neither serves any more."""
        self.make_available()
        keys = ["api", "api/v1", "apis/b.example.com", "apis/b.example.com/v1", "apis/a.example.com/v2"]
        own = "apis/a.example.com/v1"
        urls = {key: f"/openapi/v3/{key}?hash=A" for key in [*keys, own]}
        answers = self.backend_client.answers
        answers["/openapi/v3"] = orjson.dumps({"paths": {key: {"serverRelativeURL": url} for key, url in urls.items()}})
        answers.update(dict.fromkeys(urls.values(), b"{}"))
        self.clock.advance(31)
        self.turn()
        self.assertEqual(list(self.openapi.documents), [own])

    def test_what_is_no_document_is_passed_over(self) -> None:
        self.make_available()
        for index in (
            b"[]",
            b'{"paths": 1}',
            b'{"paths": {"a": 1}}',
            b'{"paths": {"a": {"serverRelativeURL": 1}}}',
            b"x",
        ):
            self.backend_client.answers.update({"/openapi/v3": index, "/openapi/v2": b'{"paths": 1}'})
            self.clock.advance(31)
            self.turn()
            self.assertEqual(self.openapi.documents, {})
        self.assertEqual(self.condition()["status"], "True")
