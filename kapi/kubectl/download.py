"""Reads an http or https URL, for ``-f`` (upstream: cli-runtime ``resource/visitor.go`` URLVisitor)."""

from __future__ import annotations

from urllib.parse import urlsplit

from kapi.client.config import Config
from kapi.client.errors import ConnectionFailed
from kapi.client.rest import RESTClient
from kapi.client.session import Session
from kapi.kubectl.messages import CommandError, standard_message
from kapi.machinery.status import StatusError
from kapi.process.reactor import Reactor

TIMEOUT_SECONDS = 30.0


async def download(url: str, reactor: Reactor) -> bytes:
    """The content of the URL.  Raises CommandError."""
    parsed = urlsplit(url)
    if not parsed.netloc:
        raise CommandError("Unable to connect to the server: http: no Host in request URL", plain=True)
    session = Session.for_config(
        Config(host=f"{parsed.scheme}://{parsed.netloc}", qps=0, timeout=TIMEOUT_SECONDS), reactor
    )
    try:
        path = (parsed.path or "/") + (f"?{parsed.query}" if parsed.query else "")
        return await RESTClient(session, accept="*/*").get().abs_path(path).raw()
    except StatusError as error:
        raise CommandError(
            f'unable to read URL "{url}", server reported {error.code}, status code={error.code}'
        ) from None
    except ConnectionFailed as error:
        raise CommandError(standard_message(error, url) or str(error), plain=True) from None
    finally:
        await session.close()
