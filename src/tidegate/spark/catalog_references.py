"""References that the text of a kept view may hold and that no catalog of Spark answers: paths and versions.

Spark's analyser reads such a text whenever the view is used, by whichever way. A rule of ours stands in the
analyser of each session (``ReferencePlans.java``) and asks here, so that nothing but the user's own words
is kept: no name is entered into a catalog for the sake of a view.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidegate.errors import TidegateError
from tidegate.spark import failures, jvm
from tidegate.spark.catalog import plan_of
from tidegate.spark.session_ids import session_id, standing_for

_log = logging.getLogger(__name__)
_served: weakref.WeakSet[SparkSession] = weakref.WeakSet()


@dataclass(frozen=True)
class Reference:
    """What a text says: a name in parts, where names of one part belong, and the version asked for."""

    parts: tuple[str, ...]
    namespace: tuple[str, ...] = ()
    version: str | None = None
    micros: int | None = None


def serve_references(
    spark: SparkSession, scan: Callable[[SparkSession, Reference], DataFrame | None]
) -> bool:
    """From here on the session's analyser asks ``scan`` for paths and versions; once is enough.

    ``scan`` answers None where it leaves a reference to Spark. False where this Spark has no such place.
    """
    if spark in _served:
        return True
    # By the id: the object at hand may go while others stand for the same session.
    key = session_id(spark)

    def plan(asked: Any) -> Any:
        session = standing_for(key)
        if session is None:
            return None
        parts, namespace, version, micros = asked
        said = Reference(tuple(parts), tuple(namespace), version, None if micros is None else int(micros))
        try:
            found = scan(session, said)
        except TidegateError as e:
            # The place where errors are turned back is hung by the first table that is watched.
            failures.watch(said.parts[-1], said.parts[-1])
            raise failures.through_spark(e) from e
        return None if found is None else plan_of(found)

    analyser = spark._jsparkSession.sessionState().analyzer()
    try:
        jvm.compiled(spark, "ReferencePlans.java").install(analyser, jvm.JavaFunction(plan))
    except Exception:
        _log.warning("this Spark keeps its rules elsewhere; views are kept over names alone", exc_info=True)
        return False
    _served.add(spark)
    return True


def serves_references(spark: SparkSession) -> bool:
    """Whether the session's analyser asks us."""
    return spark in _served
