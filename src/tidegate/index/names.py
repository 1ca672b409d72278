"""The names a query may use: the fields of the splits, paths into JSON fields, and partition columns.

Names are taken in any case. A dot that belongs to a column's own name is escaped, or the name stands in
backquotes; the longest name that is a column wins over a path into a JSON field.
"""

from __future__ import annotations

from tidegate.errors import QueryError
from tidegate.index.fields import DocMapping, Field
from tidegate.schema.types import DecimalType, StructType


class Names:
    """The columns a query may speak of: the fields of the splits and the partition columns."""

    def __init__(self, mapping: DocMapping, partitions: StructType | None = None) -> None:
        self.mapping = mapping
        self.partitions = partitions or StructType(())

    def defaults(self) -> list[Field]:
        """Where a word without a field is looked for: the text fields, else the exact strings."""
        for kind in ("text", "string"):
            found = [
                f for f in self.mapping.indexed if f.kind == kind and not isinstance(f.type, DecimalType)
            ]
            if found:
                return found
        raise QueryError(
            "No column is a text or string field, so a word needs a field.", hint="Write field:value."
        )

    def find(self, name: str) -> tuple[Field | None, str, str]:
        """A field with the JSON path in it, or None and the name of a partition column."""
        plain = name.replace("\\.", ".")
        partition = self.partitions.field(plain)
        if partition is not None:
            return None, partition.name, ""
        field = self.mapping.find(plain)
        if field is not None:
            return self._searchable(field), "", ""
        head, path = _head(name)
        while head:
            field = self.mapping.find(head.replace("\\.", "."))
            if field is not None and field.kind == "json":
                return self._searchable(field), "", path
            head, more = _head(head)
            path = f"{more}.{path}" if more else path
        columns = [f.column for f in self.mapping.indexed] + list(self.partitions.names)
        raise QueryError(f"There is no field {plain}.", hint=f"The fields are {', '.join(columns[:20])}.")

    def _searchable(self, field: Field) -> Field:
        if not field.indexed:
            raise QueryError(
                f"The column {field.column} is only stored (indexing.storeonlyfields), not searchable.",
                hint="Filter on it with where(), or write the table anew with it indexed.",
            )
        return field


def _head(name: str) -> tuple[str, str]:
    """``a.b.c`` as ``a.b`` and ``c``; an escaped dot does not part anything."""
    for at in range(len(name) - 1, 0, -1):
        if name[at] == "." and name[at - 1] != "\\":
            return name[:at], name[at + 1 :]
    return "", name
