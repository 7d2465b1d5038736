"""An administrator of a server, and whether it serves its built-in resources: each is listed."""

from __future__ import annotations

import json
from typing import Any

from tests.integration.server_process import ServerProcess, connect
from tests.security.attacker import JSON, MERGE

START_SECONDS = 29.0  # upstream's hooks give up after 30; a start takes less than one where the machine is idle


class Admin:
    """Over one connection."""

    def __init__(self, server: ServerProcess) -> None:
        self._connection = connect(server)

    def ask(self, method: str, path: str, body: Any = None, content_type: str = JSON) -> tuple[int, Any]:
        """The code, and the body: as a tree if it is JSON."""
        headers = {"Authorization": "Bearer admintoken", "Content-Type": content_type}
        self._connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self._connection.getresponse()
        data = answer.read()
        return answer.status, json.loads(data) if data.startswith(b"{") else data

    def get(self, path: str) -> Any:
        return self._expect(200, self.ask("GET", path))

    def versions(self) -> list[str]:
        """The group versions of discovery, without the core group's."""
        return [version["groupVersion"] for group in self.get("/apis")["groups"] for version in group["versions"]]

    def names(self, path: str) -> list[str]:
        """Of the objects of a list."""
        return [each["metadata"]["name"] for each in self.get(path)["items"]]

    def create(self, path: str, body: Any) -> Any:
        return self._expect(201, self.ask("POST", path, body))

    def change(self, path: str, patch: Any) -> Any:
        return self._expect(200, self.ask("PATCH", path, patch, MERGE))

    def delete(self, path: str) -> None:
        """An object that is missing is deleted already."""
        code, body = self.ask("DELETE", path)
        assert code in (200, 202, 404), body

    def replace(self, path: str, body: Any) -> None:
        """Deletes an object and creates it with other fields."""
        self.delete(path)
        self.create(path.rpartition("/")[0], body)

    def _expect(self, wanted: int, answer: tuple[int, Any]) -> Any:
        assert answer[0] == wanted, answer
        return answer[1]


def group_versions(admin: Admin) -> set[str]:
    """As in discovery; the core group is "v1"."""
    core = {"v1"} if admin.ask("GET", "/api/v1")[0] == 200 else set[str]()
    return core.union(admin.versions())


def unserved(admin: Admin) -> dict[str, int]:
    """The paths of lists and group versions that are not answered 200, and what they are answered; "/readyz" is another."""
    found = {}

    def get(path: str) -> Any:
        code, body = admin.ask("GET", path)
        if code == 200:
            return body
        found[path] = code
        return {}

    get("/readyz")
    for group_version in group_versions(admin):
        root = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
        for each in get(root).get("resources", ()):
            if "list" in each["verbs"]:
                get(f"{root}/{each['name']}?limit=1")
    return found
