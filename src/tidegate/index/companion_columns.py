"""The columns of a companion and those of its Delta table, which may call them otherwise at every version.

What was indexed belongs to a column by what data files call it: that stays when the table renames it, and
is another one when a column is dropped and a new one gets its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tidegate.errors import OptionError, SchemaInvalidError
from tidegate.index.fields import DocMapping, kind_of, mapping_for
from tidegate.index.settings import Settings
from tidegate.index.snapshot import IndexSnapshot
from tidegate.index.write import mapping_of
from tidegate.log.snapshot import Snapshot
from tidegate.schema.mapping import mapping_mode, physical_name
from tidegate.schema.types import StructField, StructType

PREFIX = "indextables.companion."
# What the indexed columns are called in data files.
PHYSICAL = PREFIX + "physicalNames"


def plain(schema: StructType) -> StructType:
    """A schema without the metadata of its columns."""
    return schema.transform(lambda _, f: StructField(f.name, f.type, True))


def chosen(delta: Snapshot, columns: Sequence[str] | None, settings: Settings) -> DocMapping:
    """The fields of the columns that are to be searched."""
    schema = plain(delta.schema)
    aside = {p.casefold() for p in delta.partition_columns}
    if columns is None:
        wanted = [f for f in schema.fields if f.name.casefold() not in aside and _can(f)]
    else:
        wanted = []
        for name in columns:
            found = schema.field(name)
            if found is None:
                raise OptionError(
                    f"The Delta table has no column {name}.", hint=f"It has {', '.join(schema.names[:20])}."
                )
            if found.name.casefold() not in aside:
                wanted.append(found)
    if not wanted:
        raise OptionError("No column is left to be indexed.")
    return mapping_for(StructType(tuple(wanted)), (), settings)


def _can(field: StructField) -> bool:
    try:
        kind_of(field.type, field.name)
    except SchemaInvalidError:
        return False
    return True


def physical_names(delta: Snapshot, mapping: DocMapping) -> dict[str, str]:
    mode = mapping_mode(delta.metadata)
    found = ((f.column, delta.schema.field(f.column)) for f in mapping.fields)
    return {column: physical_name(field, mode) for column, field in found if field is not None}


def current_names(index: IndexSnapshot, delta: Snapshot) -> dict[str, str]:
    """What the table calls the indexed columns at the version of ``delta``, by their names in the index.

    A column that is gone has none, nor has one whose type is another: what was indexed does not tell of it.
    """
    mode = mapping_mode(delta.metadata)
    here = {physical_name(field, mode): field.name for field in delta.schema.fields}
    schema, physical = plain(delta.schema), _stored_names(index)
    out = {}
    for field in mapping_of(index).fields:
        name = here.get(physical.get(field.column, field.column))
        found = None if name is None else schema.field(name)
        if found is not None and found.type == field.type:
            out[field.name] = found.name
    return out


def _stored_names(index: IndexSnapshot) -> dict[str, str]:
    text = index.configuration.get(PHYSICAL)
    return {} if text is None else msgspec.json.decode(text, type=dict[str, str])


def check_schema(delta: Snapshot, mapping: DocMapping, names: Mapping[str, str], url: str) -> None:
    for field in mapping.fields:
        if field.name in names:
            continue
        found = plain(delta.schema).field(field.column)
        now = "is gone" if found is None or found.type == field.type else f"is {found.type} now"
        raise SchemaInvalidError(
            f"The indexed column {field.column} was {field.type} and {now}.",
            table=url,
            hint="Build a new companion for the table as it is.",
        )


def partition_names(delta: Snapshot) -> list[tuple[str, str]]:
    mode = mapping_mode(delta.metadata)
    fields = [(p, delta.schema.field(p)) for p in delta.partition_columns]
    return [(p, physical_name(f, mode)) for p, f in fields if f is not None]
