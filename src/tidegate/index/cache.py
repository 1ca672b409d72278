"""Splits on the local disk: tantivy opens folders, so a split is unpacked once and used many times.

An entry is a folder named by a hash of the split's location and size; splits never change, so an entry is
never stale. It is made aside and renamed into place, so that processes may share the cache. The least
recently used entries go when the cache grows beyond its budget (TIDEGATE_CACHE_BYTES, 20 GiB;
TIDEGATE_CACHE_DIR says where). Opened indexes are kept in memory, a few hundred of them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa

from tidegate.errors import DataFileCorruptError, DataFileMissingError, FileMissingError
from tidegate.files.locating import locate
from tidegate.index.reader import OpenSplit
from tidegate.index.rows import StoredRows, row_schema
from tidegate.index.settings import parse_size
from tidegate.index.split import Footer, Member, Packed, extract, read_footer
from tidegate.storage.opening import open_store
from tidegate.storage.store import Store

_OPEN = 256
_DONE = "footer.json"
_IN_PLACE = (pa.MemoryMappedFile, pa.BufferReader)


@dataclass(frozen=True, slots=True)
class SplitFile:
    """Where a split lies and what the log says of it: enough to open it anywhere."""

    table: str
    path: str
    size: int
    footer_start: int | None = None
    footer_end: int | None = None

    @property
    def key(self) -> str:
        text = f"{self.table}\0{self.path}\0{self.size}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def cache_root() -> Path:
    named = os.environ.get("TIDEGATE_CACHE_DIR")
    return Path(named) if named else Path(tempfile.gettempdir()) / f"tidegate-cache-{os.getuid()}"


class SplitCache:
    """The splits of this machine, and those of this process that are open."""

    def __init__(self, root: Path | None = None, budget: int | None = None) -> None:
        self.root = root or cache_root()
        self.budget = (
            budget
            if budget is not None
            else parse_size(os.environ.get("TIDEGATE_CACHE_BYTES", "20G"), "TIDEGATE_CACHE_BYTES")
        )
        self._open: OrderedDict[str, OpenSplit] = OrderedDict()
        self._lock = threading.Lock()

    def has(self, split: SplitFile) -> bool:
        """Whether opening the split reads nothing of the table's storage."""
        with self._lock:
            if split.key in self._open:
                return True
        return (self.root / split.key / _DONE).exists()

    def open(self, split: SplitFile, store: Store, options: dict[str, str] | None = None) -> OpenSplit:
        """The split, ready to be searched. ``DataError`` if it is missing or damaged."""
        with self._lock:
            found = self._open.get(split.key)
            if found is not None:
                self._open.move_to_end(split.key)
                return found
        where, name = locate(store, split.path, options)
        return self._kept(split.key, self._load(split, where, name))

    def _kept(self, key: str, opened: OpenSplit) -> OpenSplit:
        """Keep an open split for the next search, in the place of the one that was not used for longest."""
        with self._lock:
            self._open[key] = opened
            while len(self._open) > _OPEN:
                self._open.popitem(last=False)
        return opened

    def open_built(self, key: str, build: Callable[[Path], Packed]) -> OpenSplit:
        """The split that ``build`` makes in a folder, unless it was made before under this key."""
        with self._lock:
            found = self._open.get(key)
            if found is not None:
                self._open.move_to_end(key)
                return found
        folder = self.root / key
        footer = self._footer(folder)
        if footer is None:
            self._make_root()
            with tempfile.TemporaryDirectory(prefix="draft-", dir=self.root) as draft:
                packed = build(Path(draft))
                split = SplitFile("", packed.path.name, packed.size, packed.footer_start, packed.size)
                footer = self._fill(folder, split, open_store(packed.path.parent), packed.path.name)
        return self._kept(key, OpenSplit(folder, footer, lambda: None, key))

    def forget(self) -> None:
        """Close everything that is open in this process; the disk keeps what it has."""
        with self._lock:
            self._open.clear()

    def clear(self) -> None:
        """Forget everything, on disk as well."""
        self.forget()
        shutil.rmtree(self.root, ignore_errors=True)

    # ------------------------------------------------------------------ loading

    def _load(self, split: SplitFile, store: Store, name: str) -> OpenSplit:
        folder = self.root / split.key
        try:
            footer = self._footer(folder)
            if footer is None:
                footer = self._fill(folder, split, store, name)
            with contextlib.suppress(OSError):
                os.utime(folder)
            return OpenSplit(folder, footer, lambda: self._rows(folder, footer, store, name), name)
        except FileMissingError as e:
            raise DataFileMissingError(
                "A split that the log names is not there.",
                table=store.url,
                file=name,
                hint="Restore it; or repair the log, which drops what is missing.",
            ) from e

    def _footer(self, folder: Path) -> Footer | None:
        try:
            return msgspec.json.decode((folder / _DONE).read_bytes(), type=Footer)
        except (OSError, msgspec.MsgspecError):
            return None

    def _fill(self, folder: Path, split: SplitFile, store: Store, name: str) -> Footer:
        footer = read_footer(store, name, split.size, split.footer_start, split.footer_end)
        self._make_root()
        self._make_room(split.size)
        draft = Path(tempfile.mkdtemp(prefix="draft-", dir=self.root))
        try:
            source = store.open_input(name)
            extract(source, name, footer.index_members, draft)
            if footer.row_member is not None and isinstance(source, _IN_PLACE):
                # These are read where they lie, so this is when their bytes are looked at.
                _check(source, footer.members[footer.row_member], name)
            (draft / _DONE).write_bytes(msgspec.json.encode(footer))
            try:
                draft.rename(folder)
            except OSError:
                # Another process was faster; its entry is as good.
                if self._footer(folder) is None:
                    shutil.rmtree(folder, ignore_errors=True)
                    draft.rename(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return footer

    def _rows(self, folder: Path, footer: Footer, store: Store, name: str) -> StoredRows | None:
        """The stored rows, mapped and not read."""
        member = footer.row_member
        if member is None:
            return None
        data = self._mapped(folder / member, footer.members[member], store, name)
        return StoredRows(member, data, row_schema(footer.doc_mapping))

    def _mapped(self, local: Path, at: Member, store: Store, name: str) -> pa.Buffer:
        if not local.exists():
            source = store.open_input(name)
            if isinstance(source, _IN_PLACE):
                source.seek(at.start)
                return source.read_buffer(at.size)
            self._make_room(at.size)
            draft = Path(tempfile.mkdtemp(prefix="draft-", dir=self.root))
            try:
                extract(source, name, {local.name: at}, draft)
                (draft / local.name).rename(local)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
        return pa.memory_map(str(local)).read_buffer()

    def _make_root(self) -> None:
        """The folder of the cache, which is nobody else's to look into: it holds parts of tables."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _make_room(self, wanted: int) -> None:
        entries = []
        for entry in self.root.iterdir():
            with contextlib.suppress(OSError):
                size = sum(f.stat().st_size for f in entry.iterdir())
                entries.append((entry.stat().st_mtime, size, entry))
        total = sum(size for _, size, _ in entries) + wanted
        for _, size, entry in sorted(entries):
            if total <= self.budget:
                return
            if entry.name.startswith("draft-"):
                continue
            # Who has it open keeps its files: they go when the last one closes them.
            shutil.rmtree(entry, ignore_errors=True)
            total -= size


def _check(source: pa.NativeFile, at: Member, name: str) -> None:
    source.seek(at.start)
    if zlib.crc32(source.read_buffer(at.size)) != at.crc:
        raise DataFileCorruptError(
            "The rows of the split do not match their checksum.",
            file=name,
            hint="Restore the file from a copy; other splits are not touched by this.",
        )


_shared: SplitCache | None = None
_shared_lock = threading.Lock()


def shared_cache() -> SplitCache:
    """The cache of this process."""
    global _shared
    with _shared_lock:
        if _shared is None or _shared.root != cache_root():
            _shared = SplitCache()
        return _shared
