"""obstore clients for a bucket and a prefix.

Two per store: one that repeats requests by itself, and one that never does, for conditional puts
(see ``objects``). Explicit keys go in through a credential provider, so that a session token which
happens to be in the environment is not mixed with keys that came as options.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from tidegate.errors import StorageError
from tidegate.storage.objects import Client, ObjectStore
from tidegate.storage.options import AZURE, GCS, S3, Family, Settings, resolve

# Hiccups of single requests, pages and parts; what lasts longer is retried by ObjectStore.
_INNER_RETRIES = 2


class StaticKeys:
    """Keys given as options. The repr is ours because they are secrets."""

    def __init__(self, access_key_id: str, secret_access_key: str, token: str | None) -> None:
        self._keys = {"access_key_id": access_key_id, "secret_access_key": secret_access_key}
        self._token = token

    def __call__(self) -> dict[str, Any]:
        return {**self._keys, "token": self._token, "expires_at": None}

    def __repr__(self) -> str:
        return "StaticKeys(***)"


def open_s3(url: str, bucket: str, prefix: str, options: Mapping[str, Any]) -> ObjectStore:
    """A store on S3 or what speaks its protocol."""
    from obstore.store import S3Store

    settings = resolve(S3, options, url)
    arguments: dict[str, Any] = {}
    keys = [
        settings.config.pop(name, None) for name in ("access_key_id", "secret_access_key", "session_token")
    ]
    if keys[0] and keys[1]:
        arguments["credential_provider"] = StaticKeys(*keys)
    elif any(keys):
        raise StorageError("An access key needs its secret, and a session token needs both.", table=url)
    if "endpoint" in settings.config and "AWS_ENDPOINT_URL_S3" in os.environ:
        # obstore lets this variable win over "endpoint", unless its own option is given too. Not always:
        # a client with that option cannot be unpickled.
        settings.config["aws_endpoint_url_s3"] = settings.config["endpoint"]
    # Directory buckets (S3 Express) list in no order.
    ordered = not bucket.endswith("--x-s3")
    return _open(S3, S3Store, url, (bucket, prefix), settings, arguments, ordered=ordered)


def open_gcs(url: str, bucket: str, prefix: str, options: Mapping[str, Any]) -> ObjectStore:
    """A store on Google Cloud Storage."""
    from obstore.store import GCSStore

    return _open(GCS, GCSStore, url, (bucket, prefix), resolve(GCS, options, url), {}, ordered=True)


def open_azure(url: str, container: str, prefix: str, host: str, options: Mapping[str, Any]) -> ObjectStore:
    """A store on Azure; ``host`` is the account's, if the URL names it."""
    from obstore.store import AzureStore

    settings = resolve(AZURE, options, url)
    if host:
        account, _, domain = host.partition(".")
        settings.config.setdefault("account_name", account)
        if domain.endswith("fabric.microsoft.com"):
            settings.config.setdefault("use_fabric_endpoint", True)
        elif domain and not domain.endswith("core.windows.net"):
            settings.config.setdefault("endpoint", "https://" + host.replace(".dfs.", ".blob.", 1))
    # Accounts with a hierarchical namespace sort '/' before all else, and offsets are not the server's.
    return _open(AZURE, AzureStore, url, (container, prefix), settings, {}, ordered=False)


def _open(
    family: Family,
    make: Callable[..., Any],
    url: str,
    place: tuple[str, str],
    settings: Settings,
    arguments: dict[str, Any],
    *,
    ordered: bool,
) -> ObjectStore:
    bucket, prefix = place

    def client(retries: int) -> Client:
        made: Client = make(
            bucket,
            prefix=prefix or None,
            config=copy.copy(settings.config),
            client_options={"timeout": "60s", "connect_timeout": "5s", **settings.client},
            retry_config={"max_retries": retries, "retry_timeout": timedelta(seconds=90)},
            **arguments,
        )
        return made

    try:
        clients = client(_INNER_RETRIES), client(0)
    except Exception as error:
        failure = type(error).__name__
    else:
        return ObjectStore(clients[0], once=clients[1], url=url, ordered=ordered)
    # Outside the except block, and without the client's text: it may quote what it was given.
    raise StorageError(
        f"The {family.title} client could not be made ({failure}).",
        table=url,
        hint="Check the endpoint, region, account and credentials that are set.",
    )
