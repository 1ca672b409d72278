"""Bytes under URLs: list from a name, get, put-if-absent, put, delete.

``open_store`` finds the backend for a location; all of them keep the contract in ``store``.
"""

from __future__ import annotations

from tidegate.storage.local import LocalStore
from tidegate.storage.memory import MemoryStore, Operation, StoreDied
from tidegate.storage.objects import ObjectStore
from tidegate.storage.opening import open_store
from tidegate.storage.retry import RetryPolicy
from tidegate.storage.store import Buffer, FileInfo, Store

__all__ = [
    "Buffer",
    "FileInfo",
    "LocalStore",
    "MemoryStore",
    "ObjectStore",
    "Operation",
    "RetryPolicy",
    "Store",
    "StoreDied",
    "open_store",
]
