"""One open split: which of its rows match, how many, how well, and the rows themselves.

Matching rows are numbers within the split, in order; there is no limit but the one that is asked for. The
stored columns are read in blocks, and only those in which hits lie.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.errors import DataFileCorruptError, QueryError
from tidegate.index.compile import Compiler
from tidegate.index.fields import ROW, DocMapping, register
from tidegate.index.names import Names
from tidegate.index.query import All, Node
from tidegate.index.rows import StoredRows
from tidegate.index.split import Footer
from tidegate.schema.arrow import to_arrow_type

Rows = npt.NDArray[np.int64]
_LOW = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Snippet:
    """A piece of a text and where in it the query matched, in characters."""

    text: str
    spans: tuple[tuple[int, int], ...]

    def marked(self, before: str = "**", after: str = "**") -> str:
        """The text with the matches between two marks."""
        out, at = "", 0
        for start, end in self.spans:
            out += self.text[at:start] + before + self.text[start:end] + after
            at = end
        return out + self.text[at:]


class OpenSplit:
    """A split whose index lies in ``folder``. Safe to use from several threads."""

    def __init__(
        self, folder: Path, footer: Footer, rows: Callable[[], StoredRows | None], name: str
    ) -> None:
        import tantivy

        self.footer = footer
        self.mapping: DocMapping = footer.doc_mapping
        self.name = name
        self._open_rows = rows
        try:
            self._index = tantivy.Index.open(str(folder))
            register(self._index, self.mapping)
            self._searcher: Any = self._index.searcher()
        except (ValueError, OSError) as e:
            raise DataFileCorruptError(f"The index of the split cannot be opened: {e}.", file=name) from e

    @property
    def num_rows(self) -> int:
        return self.footer.rows

    # ------------------------------------------------------------------ matching

    def compiled(self, names: Names, node: Node, constants: Mapping[str, Any]) -> Any:
        return guarded(lambda: Compiler(names, self._index, constants).compile(node), self.name)

    def count(self, names: Names, node: Node, constants: Mapping[str, Any]) -> int:
        """How many rows match."""
        if isinstance(node, All):
            return self.num_rows
        query = self.compiled(names, node, constants)
        return int(guarded(lambda: self._searcher.search(query, limit=1, count=True).count, self.name))

    def rows(self, names: Names, node: Node, constants: Mapping[str, Any], limit: int | None = None) -> Rows:
        """The numbers of the rows that match, in order; the first ``limit`` of them."""
        if limit == 0:
            return np.empty(0, np.int64)
        if isinstance(node, All):
            return np.arange(self.num_rows if limit is None else min(limit, self.num_rows), dtype=np.int64)
        query = self.compiled(names, node, constants)
        return self._matching(query, limit)

    def _matching(self, query: Any, limit: int | None) -> Rows:
        from tantivy import Order

        def run() -> Rows:
            found = int(self._searcher.search(query, limit=1, count=True).count)
            if not found:
                return np.empty(0, np.int64)
            # With several sources the order of ids is not that of rows: all are needed to know the first.
            most = found if limit is None or len(self.footer.sources) > 1 else min(limit, found)
            hits = self._searcher.search(
                query, limit=most, count=False, order_by_field=ROW, order=Order.Asc
            ).hits
            ids = np.fromiter((value for value, _ in hits), np.int64, len(hits))
            return self._numbers(ids)

        rows: Rows = guarded(run, self.name)
        rows.sort()
        return rows if limit is None else rows[:limit]

    def best(
        self, names: Names, node: Node, constants: Mapping[str, Any], limit: int | None
    ) -> tuple[Rows, npt.NDArray[np.float32]]:
        """Rows and their scores, the best first, equal ones by their number."""
        query = self.compiled(names, node, constants)

        def run() -> tuple[Rows, npt.NDArray[np.float32]]:
            found = int(self._searcher.search(query, limit=1, count=True).count)
            if not found or limit == 0:
                return np.empty(0, np.int64), np.empty(0, np.float32)
            hits = self._searcher.search(query, limit=found, count=False).hits
            scores = np.fromiter((score for score, _ in hits), np.float32, len(hits))
            ids = self._searcher.fast_field_values(ROW, [address for _, address in hits])
            return self._numbers(np.array(ids, np.int64)), scores

        rows, scores = guarded(run, self.name)
        order = np.lexsort((rows, -scores))[: None if limit is None else limit]
        return rows[order], scores[order]

    @cached_property
    def _origins(self) -> tuple[Rows, Rows]:
        ordered = sorted(self.footer.sources, key=lambda s: s.id)
        return np.array([s.id for s in ordered], np.int64), np.array([s.offset for s in ordered], np.int64)

    def _numbers(self, ids: Rows) -> Rows:
        """Ids of the index as numbers of rows."""
        origins, offsets = self._origins
        if len(origins) == 1:
            return np.asarray((ids & _LOW) + offsets[0])
        return np.asarray((ids & _LOW) + offsets[np.searchsorted(origins, ids >> 32)])

    # ------------------------------------------------------------------ rows

    def fetch(self, rows: Rows, columns: Sequence[str]) -> pa.Table:
        """The named columns of the rows, in the given order. Columns that are not stored are null."""
        wanted = [f for f in self.mapping.stored if f.column in set(columns)]
        found = self._stored(rows, [f.column for f in wanted]) if wanted else None
        arrays, fields = [], []
        for name in columns:
            field = self.mapping.find(name)
            assert field is not None
            kind = to_arrow_type(field.type)
            fields.append(pa.field(name, kind))
            stored = found is not None and name in found.column_names
            arrays.append(found.column(name) if found is not None and stored else pa.nulls(len(rows), kind))
        if not columns:
            return pa.table({"_": pa.nulls(len(rows))})
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))

    def _stored(self, rows: Rows, columns: list[str]) -> pa.Table:
        stored = self._rows
        if stored is None:
            raise QueryError("This split holds no rows of its own.")
        if len(rows) == self.num_rows and np.array_equal(rows, np.arange(self.num_rows)):
            return stored.whole(columns)
        return stored.take(rows, columns)

    @cached_property
    def _rows(self) -> StoredRows | None:
        return self._open_rows()

    # ------------------------------------------------------------------ snippets

    def snippets(
        self,
        names: Names,
        node: Node,
        constants: Mapping[str, Any],
        column: str,
        texts: Sequence[str | None],
        length: int = 150,
    ) -> list[Snippet | None]:
        """For each text the piece in which the query matches best; None where it does not match there."""
        from tantivy import Document, SnippetGenerator

        field = names.mapping.find(column)
        if field is None or field.kind != "text":
            raise QueryError(f"{column} is no text field; only words can be highlighted.")
        query = self.compiled(names, node, constants)
        generator = SnippetGenerator.create(self._searcher, query, self._index.schema, field.name)
        generator.set_max_num_chars(length)
        out: list[Snippet | None] = []
        for text in texts:
            if text is None:
                out.append(None)
                continue
            document = Document()
            document.add_text(field.name, text)
            out.append(_snippet(generator.snippet_from_doc(document), text, length))
        return out


def _snippet(found: Any, text: str, length: int) -> Snippet | None:
    fragment = found.fragment()
    spans = found.highlighted()
    if not spans:
        return None
    # tantivy counts bytes.
    raw = fragment.encode()
    points = [(len(raw[: s.start].decode()), len(raw[: s.end].decode())) for s in spans]
    if len(text) <= length and (start := text.find(fragment)) >= 0:
        # A short text is shown whole: tantivy leaves out what stands around its first and last word.
        return Snippet(text, tuple((a + start, b + start) for a, b in points))
    return Snippet(fragment, tuple(points))


def guarded(work: Callable[[], Any], name: str | None) -> Any:
    """Run a search; what tantivy refuses or panics about becomes an error that names the split."""
    try:
        return work()
    except ValueError as e:
        text = str(e)
        if "max expansions" in text or "size limit" in text:
            raise QueryError(f"The query matches more words than can be combined: {text}") from e
        raise QueryError(f"The query cannot be answered: {text}", file=name) from e
    except BaseException as e:
        if type(e).__name__ == "PanicException":
            raise QueryError(f"The index refused the query: {e}", file=name) from e
        raise
