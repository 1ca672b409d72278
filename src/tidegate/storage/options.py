"""Storage options: the names people use, and what obstore calls them.

Every object store family is a table of accepted names; each is taken in any case and with or
without the family's prefix (``AWS_ACCESS_KEY_ID``, ``aws_access_key_id``, ``access_key_id``). An
unknown name is an error that suggests the nearest. No message ever shows a value.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.errors import StorageError


@dataclass(frozen=True, slots=True)
class Family:
    """The options of one kind of object store: accepted name to obstore's name."""

    title: str
    prefixes: tuple[str, ...]
    names: Mapping[str, str]
    endpoint_variables: tuple[str, ...]


@dataclass(slots=True)
class Settings:
    """Options sorted by whom they are for. The repr is ours because values are secrets."""

    config: dict[str, Any] = field(default_factory=dict)
    client: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Settings({sorted(self.config)}, {sorted(self.client)})"


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


CLIENT = _same(
    "allow_http", "allow_invalid_certificates", "connect_timeout", "proxy_url", "root_certificate", "timeout"
)  # fmt: skip

S3 = Family(
    "S3",
    ("aws_", "s3_"),
    {
        **_same(
            "access_key_id", "secret_access_key", "session_token", "region", "endpoint", "skip_signature",
            "virtual_hosted_style_request", "unsigned_payload", "request_payer", "s3_express", "role_arn",
            "role_session_name", "web_identity_token_file", "server_side_encryption", "sse_kms_key_id",
            "sse_bucket_key_enabled", "sse_customer_key_base64", "checksum_algorithm", "disable_tagging",
            "disable_bulk_delete", "imdsv1_fallback", "metadata_endpoint", "sts_endpoint",
        ),
        "default_region": "region",
        "endpoint_url": "endpoint",
        "endpoint_url_s3": "endpoint",
        "token": "session_token",
        "express": "s3_express",
        "access_key": "access_key_id",
        "secret_key": "secret_access_key",
    },
    ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
)  # fmt: skip

GCS = Family(
    "Google Cloud Storage",
    ("google_", "gcs_"),
    {
        **_same("service_account", "service_account_key", "application_credentials", "bearer_token",
                "base_url", "skip_signature"),
        "service_account_path": "service_account",
        "endpoint": "base_url",
        "endpoint_url": "base_url",
    },
    ("GOOGLE_BASE_URL",),
)  # fmt: skip

AZURE = Family(
    "Azure",
    ("azure_storage_", "azure_"),
    {
        **_same(
            "account_name", "account_key", "sas_key", "token", "tenant_id", "client_id", "client_secret",
            "authority_host", "endpoint", "use_emulator", "use_fabric_endpoint", "use_azure_cli",
            "federated_token_file", "msi_endpoint", "msi_resource_id", "object_id", "skip_signature",
            "disable_tagging", "encryption_key", "credential_type",
        ),
        "access_key": "account_key",
        "authority_id": "tenant_id",
        "bearer_token": "token",
        "endpoint_url": "endpoint",
        "sas_token": "sas_key",
    },
    ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
)  # fmt: skip

FAMILIES = (S3, GCS, AZURE)

_FLAGS = frozenset(
    {
        "allow_http", "allow_invalid_certificates", "skip_signature", "virtual_hosted_style_request",
        "unsigned_payload", "request_payer", "s3_express", "sse_bucket_key_enabled", "disable_tagging",
        "disable_bulk_delete", "imdsv1_fallback", "use_emulator", "use_fabric_endpoint", "use_azure_cli",
    }
)  # fmt: skip
_TRUE = frozenset({"1", "true", "yes", "on", "requester"})
_FALSE = frozenset({"", "0", "false", "no", "off"})


def resolve(family: Family, options: Mapping[str, Any], where: str) -> Settings:
    """``options`` as obstore takes them; what they do not say, obstore reads from the environment."""
    settings = Settings()
    for given, value in options.items():
        name = _known(family, given)
        if name is None:
            raise _unknown(given, (family,), where)
        target = settings.client if name in CLIENT else settings.config
        if name in target:
            raise StorageError(
                f"The option {name!r} is given twice, the second time as {given!r}.", table=where
            )
        target[name] = _flag(given, value, where) if name in _FLAGS else str(value)
    # obstore forgets what the environment says of the HTTP client as soon as it is given any setting
    # for it, and we always give some.
    for prefix in family.prefixes:
        variable = f"{prefix}allow_http".upper()
        if "allow_http" not in settings.client and variable in os.environ:
            settings.client["allow_http"] = _flag(variable, os.environ[variable], where)
    _check_endpoint(family, settings, where)
    return settings


def check_unused(options: Mapping[str, Any], where: str) -> None:
    """Options given to a store that has none: fit for any family, else a typing error."""
    for given in options:
        if not any(_known(family, given) for family in FAMILIES):
            raise _unknown(given, FAMILIES, where)


def _known(family: Family, given: str) -> str | None:
    name = given.lower().replace("-", "_")
    for prefix in ("", *family.prefixes):
        if name.startswith(prefix):
            bare = name.removeprefix(prefix)
            found = family.names.get(bare) or CLIENT.get(bare)
            if found:
                return found
    return None


def _unknown(given: str, families: tuple[Family, ...], where: str) -> StorageError:
    accepted = [
        prefix + name
        for family in families
        for prefix in ("", *family.prefixes)
        for name in (*family.names, *CLIENT)
    ]
    near = difflib.get_close_matches(given.lower().replace("-", "_"), accepted, n=1)
    titles = ", ".join(family.title for family in families)
    names = ", ".join(sorted({*CLIENT, *(name for family in families for name in family.names.values())}))
    hint = f"Did you mean {near[0]!r}?" if near else f"The options are: {names}."
    return StorageError(f"There is no storage option {given!r} for {titles}.", table=where, hint=hint)


def _flag(given: str, value: Any, where: str) -> bool:
    word = str(value).strip().lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise StorageError(f"The option {given!r} is a yes or no: write 'true' or 'false'.", table=where)


def _check_endpoint(family: Family, settings: Settings, where: str) -> None:
    variables = (os.environ.get(variable) for variable in family.endpoint_variables)
    given = settings.config.get("endpoint") or settings.config.get("base_url")
    endpoint = given or next((value for value in variables if value), "")
    if endpoint.lower().startswith("http:") and not settings.client.get("allow_http"):
        raise StorageError(
            "The endpoint is plain http, which would send everything unencrypted.",
            table=where,
            hint="Pass allow_http=true if that is meant.",
        )
