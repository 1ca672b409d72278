"""Places of tables as Hadoop knows them: the address it opens, and the keys it opens it with.

A table in an object store is read and written natively where Spark has the file system for it (hadoop-aws,
gcs-connector, hadoop-azure). Hadoop then gets what the store was opened with: options first, the
environment of this process where they say nothing. These settings go into the clone of a session and from
there with the tasks; the user's session, plans, options and logs never see them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from tidegate.spark import jvm
from tidegate.storage.store import Store

_SCHEMES = {"s3": "s3a", "s3n": "s3a", "gcs": "gs", "abfs": "abfss"}
_PROVIDERS = "org.apache.hadoop.fs.s3a."
_SIGNERS = {
    "anonymous": f"{_PROVIDERS}AnonymousAWSCredentialsProvider",
    "keys": f"{_PROVIDERS}SimpleAWSCredentialsProvider",
    "token": f"{_PROVIDERS}TemporaryAWSCredentialsProvider",
}
_AZURE = "fs.azure.account"
_CLIENT_CREDENTIALS = "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"


def hadoop_root(url: str) -> str:
    """The address of a table, or of a file of it, as Hadoop writes it."""
    if url.startswith("/"):
        return f"file:{url}"
    scheme, found, rest = url.partition(":")
    return f"{_SCHEMES.get(scheme, scheme)}{found}{rest}"


def opens(spark: SparkSession, url: str) -> bool:
    """Whether Spark has a file system for the place of a table."""
    return jvm.can_open(spark, hadoop_root(url))


def settings(store: Store) -> dict[str, str]:
    """What Hadoop must be told to open the place of a store; nothing for disks."""
    if "tidegate.storage.clients" not in sys.modules or not hasattr(store, "_client"):
        return {}
    client: Any = store._client
    config = {k: str(v) for k, v in dict(client.config).items()}
    kind = type(client).__name__
    if kind == "S3Store":
        return _s3(config, _keys(client), dict(client.client_options or {}))
    if kind == "GCSStore":
        return _gcs(config)
    return _azure(config, store.url) if kind == "AzureStore" else {}


def _keys(client: Any) -> dict[str, str]:
    """The keys that came as options, without any of the environment's."""
    provider = getattr(client, "credential_provider", None)
    if provider is None:
        return {}
    return {name: str(value) for name, value in provider().items() if value is not None}


def _said(config: Mapping[str, str], name: str, *variables: str) -> str | None:
    return config.get(name) or next((v for n in variables if (v := os.environ.get(n))), None)


# ---------------------------------------------------------------------------- S3


def _s3(config: Mapping[str, str], keys: Mapping[str, str], options: Mapping[str, Any]) -> dict[str, str]:
    """``fs.s3a.*`` of one bucket, so that tables in other buckets keep theirs."""
    out: dict[str, str | None] = {}
    if keys:
        access, secret, token = (keys.get(n) for n in ("access_key_id", "secret_access_key", "token"))
    else:
        access = _said(config, "access_key_id", "AWS_ACCESS_KEY_ID")
        secret = _said(config, "secret_access_key", "AWS_SECRET_ACCESS_KEY")
        token = _said(config, "session_token", "AWS_SESSION_TOKEN", "AWS_TOKEN")
    if _said(config, "skip_signature", "AWS_SKIP_SIGNATURE") in ("true", "1"):
        out["aws.credentials.provider"] = _SIGNERS["anonymous"]
    elif access and secret:
        out["aws.credentials.provider"] = _SIGNERS["token" if token else "keys"]
        out.update({"access.key": access, "secret.key": secret, "session.token": token})
    endpoint = _said(config, "endpoint", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    region = _said(config, "region", "AWS_REGION", "AWS_DEFAULT_REGION")
    out["endpoint"] = endpoint
    # With an endpoint of its own, S3A asks the region of nobody: it must be told one.
    out["endpoint.region"] = region or ("us-east-1" if endpoint else None)
    hosted = _said(config, "virtual_hosted_style_request", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST")
    if endpoint:
        out["path.style.access"] = "false" if hosted in ("true", "1") else "true"
        out["connection.ssl.enabled"] = "false" if endpoint.lower().startswith("http:") else "true"
    if _said(config, "request_payer", "AWS_REQUEST_PAYER") in ("true", "1", "requester"):
        out["requester.pays.enabled"] = "true"
    encryption = _said(config, "server_side_encryption", "AWS_SERVER_SIDE_ENCRYPTION")
    algorithms = {"AES256": "SSE-S3", "aws:kms": "SSE-KMS", "aws:kms:dsse": "DSSE-KMS"}
    if encryption in algorithms:
        out["encryption.algorithm"] = algorithms[encryption]
        out["encryption.key"] = _said(config, "sse_kms_key_id", "AWS_SSE_KMS_KEY_ID")
    bucket = config["bucket"]
    return {f"fs.s3a.bucket.{bucket}.{k}": v for k, v in out.items() if v is not None}


# ---------------------------------------------------------------------------- Google, Azure


def _gcs(config: Mapping[str, str]) -> dict[str, str]:
    out: dict[str, str] = {}
    file = _said(config, "service_account", "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH")
    file = file or _said(config, "application_credentials", "GOOGLE_APPLICATION_CREDENTIALS")
    if file:
        out["fs.gs.auth.type"] = "SERVICE_ACCOUNT_JSON_KEYFILE"
        out["fs.gs.auth.service.account.json.keyfile"] = file
    elif _said(config, "skip_signature", "GOOGLE_SKIP_SIGNATURE") in ("true", "1"):
        out["fs.gs.auth.type"] = "UNAUTHENTICATED"
    if base := _said(config, "base_url", "GOOGLE_BASE_URL"):
        out["fs.gs.storage.root.url"] = base
    return out


def _azure(config: Mapping[str, str], url: str) -> dict[str, str]:
    """``fs.azure.*`` of one account; only addresses that name it (``abfss:``) are opened by Hadoop."""
    _, at, host = url.partition("://")[2].split("/", 1)[0].rpartition("@")
    if not at:
        return {}
    key = _said(config, "account_key", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY")
    if key:
        return {f"{_AZURE}.key.{host}": key, f"{_AZURE}.auth.type.{host}": "SharedKey"}
    sas = _said(config, "sas_key", "AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_SAS_TOKEN")
    if sas:
        return {f"{_AZURE}.auth.type.{host}": "SAS", f"fs.azure.sas.fixed.token.{host}": sas.lstrip("?")}
    client = _said(config, "client_id", "AZURE_STORAGE_CLIENT_ID", "AZURE_CLIENT_ID")
    secret = _said(config, "client_secret", "AZURE_STORAGE_CLIENT_SECRET", "AZURE_CLIENT_SECRET")
    tenant = _said(config, "tenant_id", "AZURE_STORAGE_TENANT_ID", "AZURE_TENANT_ID")
    if not (client and secret and tenant):
        return {}
    authority = _said(config, "authority_host", "AZURE_AUTHORITY_HOST") or "https://login.microsoftonline.com"
    return {
        f"{_AZURE}.auth.type.{host}": "OAuth",
        f"{_AZURE}.oauth.provider.type.{host}": _CLIENT_CREDENTIALS,
        f"{_AZURE}.oauth2.client.id.{host}": client,
        f"{_AZURE}.oauth2.client.secret.{host}": secret,
        f"{_AZURE}.oauth2.client.endpoint.{host}": f"{authority.rstrip('/')}/{tenant}/oauth2/token",
    }
