"""The protocol a table gets: when it is created, when its properties or its schema change.

Protocol properties (``delta.minReaderVersion``, ``delta.minWriterVersion``, ``delta.feature.*``,
``delta.ignoreProtocolDefaults``) steer this and are never stored: they are consumed here and stripped.
Versions a user gives stand for groups of features and only ever add; so do features that the metadata
enables. A protocol never comes down but by dropping a feature. Answers the document on the Protocol
action: new tables, the required minimum, and the upgrade of existing tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tidegate import properties
from tidegate.errors import (
    FeaturesMismatchError,
    InvalidProtocolError,
    ManualEnablementError,
    PropertyError,
    ProtocolDowngradeException,
    ProtocolPropertyError,
    UnknownFeatureError,
)
from tidegate.metadata import Metadata
from tidegate.protocol.delta import DELTA
from tidegate.protocol.feature import Feature, Registry
from tidegate.protocol.protocol import Names, Protocol

FEATURE_PREFIX = "delta.feature."
_READER = properties.MIN_READER_VERSION.key
_WRITER = properties.MIN_WRITER_VERSION.key
_IGNORE = properties.IGNORE_PROTOCOL_DEFAULTS.key
_PROTOCOL_KEYS = frozenset({_READER.lower(), _WRITER.lower(), _IGNORE.lower()})
# What a table gets where neither its creator nor the session says anything.
_DEFAULT_VERSIONS = (1, 2)


class Components(NamedTuple):
    """The least versions that some features need, with the features, so that one can say why."""

    min_reader: int
    min_writer: int
    features: Names


@dataclass(frozen=True)
class _Asked:
    """What protocol properties ask for."""

    reader: int | None
    writer: int | None
    features: Names
    ignore_defaults: bool | None


# ---------------------------------------------------------------------------- protocol properties


def is_protocol_property(key: str) -> bool:
    lower = key.lower()
    return lower in _PROTOCOL_KEYS or lower.startswith(FEATURE_PREFIX)


def strip_protocol_properties(configuration: Mapping[str, str]) -> dict[str, str]:
    """The configuration as it may be stored: without protocol properties, keys in Delta's own case."""
    return {k: v for k, v in _canonical(configuration).items() if not is_protocol_property(k)}


def configuration_for_new_table(
    configuration: Mapping[str, str], defaults: Mapping[str, str] | None = None
) -> dict[str, str]:
    """What a new table's metadata stores: the session's defaults under the user's properties, stripped."""
    return strip_protocol_properties({**_canonical(defaults or {}), **_canonical(configuration)})


# ---------------------------------------------------------------------------- new tables


def for_new_table(
    metadata: Metadata, defaults: Mapping[str, str] | None = None, registry: Registry = DELTA
) -> Protocol:
    """The protocol of a table that is being created with this metadata.

    ``defaults`` are the session's, under the keys of table properties. What the user says goes before
    them, and without either the table starts from (1,2).
    """
    defaults = _canonical(defaults or {})
    given = _canonical(metadata.configuration)
    asked = _asked(given, registry)
    by_default = _asked(defaults, registry)
    ignore = by_default.ignore_defaults if asked.ignore_defaults is None else asked.ignore_defaults
    if ignore:
        by_default = _Asked(1, 1, Names(), None)
        defaults = strip_protocol_properties(defaults)
    reader = _first(asked.reader, by_default.reader, _DEFAULT_VERSIONS[0])
    writer = _first(asked.writer, by_default.writer, _DEFAULT_VERSIONS[1])
    configuration = {**defaults, **given, _READER: str(reader), _WRITER: str(writer)}
    components = minimum_components_from_metadata(metadata.with_configuration(configuration), registry)
    protocol = registry.protocol_of(components.features)
    registry.check_write(protocol)
    return protocol


def minimum_components_from_metadata(metadata: Metadata, registry: Registry = DELTA) -> Components:
    """What metadata needs, its protocol properties taken into account; session defaults are not.

    The features are those of the versions given, those named, those the metadata enables, and all that
    these require. The versions are the least that stand for them.
    """
    asked = _asked(metadata.configuration, registry)
    named = registry.closure(asked.features)
    versions = _versions(asked, Protocol(1, 1), registry)
    enabled = automatically_enabled(metadata, registry.protocol_of(named), registry)
    features = named | enabled | versions.implicit_features(registry.rules)
    least = registry.protocol_of(features)
    return Components(least.min_reader_version, least.min_writer_version, features)


# ---------------------------------------------------------------------------- what metadata needs


def required_minimum(metadata: Metadata, registry: Registry = DELTA) -> tuple[Protocol, tuple[str, ...]]:
    """The highest versions that the features in use came with, from (0,0) on, and those features in order.

    Not a protocol for a table: it is not brought to any form. From the versions on that have lists, they
    hold what is in use and what that requires.
    """
    rules = registry.rules
    nothing = Protocol(0, 0)
    used = [row for row in registry if row.enabled_in(metadata, nothing, rules)]
    rows = [registry[name] for name in registry.closure(row.name for row in used)]
    reader, writer = _versions_of(rows)
    return (
        Protocol(
            reader,
            writer,
            Names(r.name for r in rows if r.reader_writer) if reader >= rules.reader_lists else None,
            Names(r.name for r in rows) if writer >= rules.writer_lists else None,
        ),
        tuple(row.name for row in used),
    )


def automatically_enabled(
    metadata: Metadata, protocol: Protocol | None = None, registry: Registry = DELTA
) -> Names:
    """The protocol's writer features, those the metadata enables, and all that these require."""
    current = protocol if protocol is not None else Protocol(1, 1)
    by_protocol = (n for n in current.writer_features or () if n in registry)
    by_metadata = (row.name for row in registry if row.enabled_in(metadata, current, registry.rules))
    return registry.closure([*by_protocol, *by_metadata])


def minimum_components_from_auto(metadata: Metadata, registry: Registry = DELTA) -> Components:
    """What metadata enables, with the highest versions those features came with; (0,0) for none."""
    features = automatically_enabled(metadata, None, registry)
    return Components(*_versions_of(registry[name] for name in features), features)


# ---------------------------------------------------------------------------- existing tables


def apply_properties(
    protocol: Protocol, user_properties: Mapping[str, str], registry: Registry = DELTA
) -> tuple[Protocol, dict[str, str]]:
    """An existing table's protocol after a user has set properties, and the properties to store.

    First the versions, as groups of features: lower ones than the table has change nothing. Then the
    features named. What the remaining properties enable is for ``upgrade_for_metadata``, on the metadata
    that has them. Session defaults play no part.
    """
    asked = _asked(user_properties, registry)
    new = protocol
    if asked.reader is not None or asked.writer is not None:
        new = new.merge(_versions(asked, protocol, registry), rules=registry.rules)
    missing = registry.closure(asked.features) - new.features(registry.rules)
    if missing:
        new = new.with_features(*(registry[name] for name in missing), rules=registry.rules)
    if new != protocol:
        registry.check_write(new)
    return new, strip_protocol_properties(user_properties)


def upgrade_for_metadata(
    protocol: Protocol, metadata: Metadata, registry: Registry = DELTA
) -> Protocol | None:
    """The protocol an existing table needs for its new metadata, or None where it has it already."""
    rules = registry.rules
    enabled = (row.name for row in registry if row.enabled_in(metadata, protocol, rules))
    missing = registry.closure(enabled) - protocol.features(rules)
    if not missing:
        return None
    rows = [registry[name] for name in sorted(missing)]
    by_hand = [row.name for row in rows if row.enabled_by is not None and not row.auto_update]
    if by_hand:
        has = ", ".join(sorted(protocol.features(rules))) or "none"
        raise ManualEnablementError(
            "the new metadata needs features that are not added to an existing table by themselves: "
            f"{', '.join(by_hand)}. The table supports {has}.",
            hint="Set " + ", ".join(f"'{FEATURE_PREFIX}{n}' = 'supported'" for n in by_hand) + " first.",
        )
    new = protocol.with_features(*rows, rules=rules)
    registry.check_write(new)
    return new


def check_requirements(metadata: Metadata, current: Protocol, registry: Registry = DELTA) -> Protocol | None:
    """The last check before new metadata is committed: the upgraded protocol, or None."""
    assert_no_protocol_properties(metadata.configuration)
    return upgrade_for_metadata(current, metadata, registry)


def assert_no_protocol_properties(configuration: Mapping[str, str]) -> None:
    """Protocol properties in a transaction's metadata are a defect of the caller, who strips them."""
    keys = {key.lower() for key in configuration}
    for key in (_READER, _WRITER):
        if key.lower() in keys:
            raise ProtocolPropertyError(
                f"Should not have the protocol version ({key}) as part of table properties"
            )
    for key in configuration:
        if is_protocol_property(key):
            raise ProtocolPropertyError(f"{key} steers the protocol and is not stored as a table property")


def assert_features_match(protocol: Protocol, metadata: Metadata, registry: Registry = DELTA) -> None:
    """Refuse a table whose metadata uses features that its protocol does not list.

    A client without the feature would be let through and would read or write the table wrongly. Legacy
    protocols are left alone: there the versions speak.
    """
    if protocol.reader_features is None and protocol.writer_features is None:
        return
    lacking = automatically_enabled(metadata, protocol, registry) - protocol.features(registry.rules)
    if lacking:
        raise FeaturesMismatchError(
            f"the table uses features that its {protocol} lacks: {', '.join(sorted(lacking))}",
            hint="Whoever may write it must add them to the protocol before it can be used safely.",
        )


def check_transition(
    current: Protocol, new: Protocol, *, dropped: str | None = None, registry: Registry = DELTA
) -> None:
    """Refuse a protocol that takes features away, other than the one being dropped."""
    rules = registry.rules
    if dropped is not None and current.can_downgrade_to(new, dropped, rules):
        return
    if dropped is None and current.can_upgrade_to(new, rules):
        return
    lost = sorted(current.features(rules) - new.features(rules) - {dropped or ""})
    what = f"would lose {', '.join(lost)}" if lost else f"is not the old one without {dropped}"
    raise ProtocolDowngradeException(f"from {current} to {new} the table {what}")


# ---------------------------------------------------------------------------- inside


def _canonical(configuration: Mapping[str, str]) -> dict[str, str]:
    return {properties.canonical_key(key): value for key, value in configuration.items()}


def _asked(configuration: Mapping[str, str], registry: Registry) -> _Asked:
    given = {key.lower(): value for key, value in configuration.items() if is_protocol_property(key)}
    names = {}
    for lower, status in given.items():
        if lower.startswith(FEATURE_PREFIX):
            names[lower[len(FEATURE_PREFIX) :]] = status
    for name, status in names.items():
        if status.lower() not in ("supported", "enabled"):
            raise PropertyError(
                f"{FEATURE_PREFIX}{name} is {status!r}: the one status a feature can be given is 'supported'",
                errorClass="DELTA_UNSUPPORTED_FEATURE_STATUS",
            )
    unknown = sorted(name for name in names if name not in registry)
    if unknown:
        raise UnknownFeatureError(
            f"{', '.join(unknown)}: not among the table features {registry.client} knows",
            hint=f"It knows {', '.join(row.name for row in registry)}.",
        )
    ignore = given.get(_IGNORE.lower())
    return _Asked(
        _version(given.get(_READER.lower()), _READER, registry.max_reader_version),
        _version(given.get(_WRITER.lower()), _WRITER, registry.max_writer_version),
        Names(registry[name].name for name in names),
        None if ignore is None else properties.get({_IGNORE: ignore}, properties.IGNORE_PROTOCOL_DEFAULTS),
    )


def _version(text: str | None, key: str, highest: int) -> int | None:
    if text is None:
        return None
    number = int(text) if text.strip().isdecimal() else 0
    if not 1 <= number <= highest:
        raise PropertyError(f"{key} is {text!r}: it needs a number from 1 to {highest}")
    return number


def _versions(asked: _Asked, current: Protocol, registry: Registry) -> Protocol:
    """The versions asked for; the side that is not asked for stays as it is."""
    rules = registry.rules
    writer = _first(asked.writer, current.min_writer_version)
    reader = _first(asked.reader, current.min_reader_version)
    if asked.reader is None and reader >= rules.reader_lists and writer < rules.writer_lists:
        # A writer version alone means writer features; what binds readers is in the table's lists already.
        reader = 1
    if reader >= rules.reader_lists and writer < rules.writer_lists:
        raise InvalidProtocolError(
            f"reader version {reader} needs writer version {rules.writer_lists}, and would get {writer}",
            hint=f"Set {_WRITER} to {rules.writer_lists} too.",
        )
    return Protocol(
        reader,
        writer,
        Names() if reader >= rules.reader_lists else None,
        Names() if writer >= rules.writer_lists else None,
    )


def _versions_of(rows: Iterable[Feature]) -> tuple[int, int]:
    least = [(0, 0), *((row.min_reader, row.min_writer) for row in rows)]
    return max(r for r, _ in least), max(w for _, w in least)


def _first(*values: int | None) -> int:
    return next(v for v in values if v is not None)
