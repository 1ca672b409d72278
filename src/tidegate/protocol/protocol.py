"""Versions and features of a table, and the algebra over them.

A protocol is a pair of versions and, from reader 3 and writer 7 on, lists of features. Older versions
stand for groups of features. All operations are on sets of features; their results are brought to the
*weakest form* that stands for exactly that set, so that as many clients as possible get through.
``Rules`` says what the versions of a log family mean: Delta's are the default everywhere.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from tidegate.errors import InvalidProtocolError

CHECKPOINT_PROTECTION = "checkpointProtection"

Names = frozenset[str]


class Named(typing.Protocol):
    """A feature, as far as the algebra needs it."""

    @property
    def name(self) -> str: ...

    @property
    def reader_writer(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Legacy:
    """A feature that came with a version, before there were lists. Writer-only ones have reader 0."""

    name: str
    min_reader: int
    min_writer: int

    @property
    def reader_writer(self) -> bool:
        return self.min_reader > 1


@dataclass(frozen=True, slots=True)
class Rules:
    """What versions mean: from which one on features are listed, and which features older ones imply.

    With ``lists_anywhere`` a list is legal at any version, as on index tables.
    """

    reader_lists: int
    writer_lists: int
    legacy: tuple[Legacy, ...] = ()
    lists_anywhere: bool = False

    def legacy_feature(self, name: str) -> Legacy | None:
        return next((f for f in self.legacy if f.name == name), None)


DELTA_RULES = Rules(
    reader_lists=3,
    writer_lists=7,
    legacy=(
        Legacy("invariants", 0, 2),
        Legacy("appendOnly", 0, 2),
        Legacy("checkConstraints", 0, 3),
        Legacy("generatedColumns", 0, 4),
        Legacy("changeDataFeed", 0, 4),
        Legacy("identityColumns", 0, 6),
        Legacy("columnMapping", 2, 5),
    ),
)


class Protocol(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a client must support to read and to write a table."""

    min_reader_version: int
    min_writer_version: int
    reader_features: Names | None = None
    writer_features: Names | None = None

    # ------------------------------------------------------------------ what is supported

    @property
    def explicit_features(self) -> Names:
        """The features in the lists."""
        return (self.reader_features or Names()) | (self.writer_features or Names())

    def implicit_features(self, rules: Rules = DELTA_RULES) -> Names:
        """The features that the versions stand for; none as soon as either side has lists."""
        if self.min_reader_version >= rules.reader_lists or self.min_writer_version >= rules.writer_lists:
            return Names()
        return Names(
            f.name
            for f in rules.legacy
            if f.min_reader <= self.min_reader_version and f.min_writer <= self.min_writer_version
        )

    def features(self, rules: Rules = DELTA_RULES) -> Names:
        """All features a table of this protocol supports, listed or implied."""
        return self.explicit_features | self.implicit_features(rules)

    def supports(self, name: str, rules: Rules = DELTA_RULES) -> bool:
        return name in self.explicit_features or name in self.implicit_features(rules)

    # ------------------------------------------------------------------ forms

    def normalized(self, rules: Rules = DELTA_RULES) -> Protocol:
        """Lists in their weakest form: the versions that imply exactly these features, if there are any.

        A legacy protocol is left as it is, and so is one of a version that this client does not know.
        """
        if self.min_writer_version < rules.writer_lists or self._beyond(rules):
            return self
        return _weakest(self.explicit_features, self._native_readers(rules), rules)

    def denormalized(self, rules: Rules = DELTA_RULES) -> Protocol:
        """A legacy protocol as one with lists; others are left as they are."""
        if self.min_writer_version >= rules.writer_lists or self._beyond(rules):
            return self
        return _listed(self.implicit_features(rules), Names(), rules)

    def denormalized_normalized(self, rules: Rules = DELTA_RULES) -> Protocol:
        """The weakest form of any protocol: versions above what they imply come down, (2,3) to (1,3)."""
        return self.denormalized(rules).normalized(rules)

    # ------------------------------------------------------------------ algebra

    def merge(self, *others: Protocol, rules: Rules = DELTA_RULES) -> Protocol:
        """The least protocol that supports what any of these supports, in its weakest form."""
        protocols = (self, *others)
        reader = max(p.min_reader_version for p in protocols)
        writer = max(p.min_writer_version for p in protocols)
        names = Names().union(*(p.features(rules) for p in protocols))
        readers = Names().union(*(p._native_readers(rules) for p in protocols))
        if reader > rules.reader_lists or writer > rules.writer_lists:
            # A version of the future: nothing is known of what it implies, so nothing comes down.
            listed = _listed(names, readers, rules)
            reading = listed.reader_features or Names()
            return Protocol(reader, writer, reading if reader >= rules.reader_lists else None, names)
        # Two legacy pairs may together imply more than each: the reference takes the maximum first.
        implied = Protocol(reader, writer).implicit_features(rules)
        return _weakest(names | implied, readers, rules)

    def with_features(self, *features: Named, rules: Rules = DELTA_RULES) -> Protocol:
        """This protocol with features added, in its weakest form. What they require is not added here."""
        names = self.features(rules) | {f.name for f in features}
        added = (f.name for f in features if f.reader_writer and rules.legacy_feature(f.name) is None)
        return _weakest(names, self._native_readers(rules).union(added), rules)

    def with_feature(self, feature: Named, rules: Rules = DELTA_RULES) -> Protocol:
        return self.with_features(feature, rules=rules)

    def without_feature(self, name: str, rules: Rules = DELTA_RULES) -> Protocol:
        """This protocol without a feature, in its weakest form: (2,5) without column mapping is (1,4)."""
        return _weakest(self.features(rules) - {name}, self._native_readers(rules) - {name}, rules)

    def can_upgrade_to(self, to: Protocol, rules: Rules = DELTA_RULES) -> bool:
        """Whether ``to`` supports everything this protocol does."""
        return self.features(rules) <= to.features(rules)

    def can_downgrade_to(self, to: Protocol, dropped: str, rules: Rules = DELTA_RULES) -> bool:
        """Whether ``to`` is this protocol without ``dropped``; checkpoint protection may be added."""
        rest = self.features(rules) - {dropped}
        return dropped not in to.features(rules) and to.features(rules) in (
            rest,
            rest | {CHECKPOINT_PROTECTION},
        )

    # ------------------------------------------------------------------ legality and the wire

    def validate(self, rules: Rules = DELTA_RULES) -> None:
        """Refuse a protocol that contradicts itself. Odd but harmless pairs such as (2,3) are legal.

        Of versions beyond those known nothing is asked here: the registry refuses them by number.
        """
        if self.min_reader_version < 1 or self.min_writer_version < 1:
            raise InvalidProtocolError(f"{self}: versions begin at 1")
        if self.min_reader_version > rules.reader_lists:
            return
        if not rules.lists_anywhere:
            self._check_lists("reader", self.min_reader_version, rules.reader_lists, self.reader_features)
            self._check_lists("writer", self.min_writer_version, rules.writer_lists, self.writer_features)
            if self.min_reader_version == rules.reader_lists and self.min_writer_version < rules.writer_lists:
                raise InvalidProtocolError(
                    f"{self}: reader version {rules.reader_lists} needs writer version {rules.writer_lists}"
                )
        lonely = (self.reader_features or Names()) - (self.writer_features or Names())
        if lonely and not rules.lists_anywhere:
            raise InvalidProtocolError(
                f"{self}: every reader feature is a writer feature too, "
                f"and writerFeatures lacks {', '.join(sorted(lonely))}"
            )

    def to_wire(self) -> dict[str, object]:
        """The action's JSON value, with sorted lists, so that equal protocols have equal bytes."""
        wire: dict[str, object] = {
            "minReaderVersion": self.min_reader_version,
            "minWriterVersion": self.min_writer_version,
        }
        if self.reader_features is not None:
            wire["readerFeatures"] = sorted(self.reader_features)
        if self.writer_features is not None:
            wire["writerFeatures"] = sorted(self.writer_features)
        return wire

    def __str__(self) -> str:
        text = f"protocol ({self.min_reader_version},{self.min_writer_version})"
        for side, names in (("readers", self.reader_features), ("writers", self.writer_features)):
            if names is not None:
                text += f" {side} [{', '.join(sorted(names))}]"
        return text

    # ------------------------------------------------------------------ inside

    def _beyond(self, rules: Rules) -> bool:
        return self.min_reader_version > rules.reader_lists or self.min_writer_version > rules.writer_lists

    def _native_readers(self, rules: Rules) -> Names:
        # Who stands in the readers' list is a reader-writer feature: no registry is needed to know that.
        return Names(f for f in self.reader_features or () if rules.legacy_feature(f) is None)

    def _check_lists(self, side: str, version: int, since: int, names: Names | None) -> None:
        if version < since and names is not None:
            raise InvalidProtocolError(f"{self}: {side}Features stand only at {side} version {since}")
        if version == since and names is None:
            raise InvalidProtocolError(f"{self}: {side} version {since} needs {side}Features")


def _listed(names: Names, native_readers: Names, rules: Rules) -> Protocol:
    legacy = [f for f in rules.legacy if f.name in names]
    reader = rules.reader_lists if native_readers else max([1, *(f.min_reader for f in legacy)])
    readers = native_readers | {f.name for f in legacy if f.reader_writer}
    return Protocol(reader, rules.writer_lists, readers if reader >= rules.reader_lists else None, names)


def _weakest(names: Names, native_readers: Names, rules: Rules) -> Protocol:
    legacy = [f for f in rules.legacy if f.name in names]
    if len(legacy) == len(names):
        reader = max([1, *(f.min_reader for f in legacy)])
        writer = max([1, *(f.min_writer for f in legacy)])
        versions = Protocol(reader, writer)
        if versions.implicit_features(rules) == names:
            return versions
    return _listed(names, native_readers, rules)


def weakest(features: Iterable[Named], rules: Rules = DELTA_RULES) -> Protocol:
    """The weakest protocol that supports exactly these features."""
    return Protocol(1, 1).with_features(*features, rules=rules)
