"""Answers to Java: nobody but us holds what the gateway is about to hand over."""

from __future__ import annotations

import weakref

from tidegate.spark.jvm import JavaAnswer, JavaFunction


class _Thing:
    """Stands for an object of Java, which the gateway forgets with its last reference here."""


class _List(list[object]):
    def add(self, value: object) -> None:
        self.append(value)


def test_what_a_function_returns_is_held_until_it_was_looked_up() -> None:
    function = JavaFunction(lambda _: _Thing())
    first = weakref.ref(function.apply(1))
    assert first() is not None
    second = weakref.ref(function.apply(2))
    assert (first(), second() is not None) == (None, True)


def test_an_answer_is_put_into_the_list_that_asks() -> None:
    asked = _List(["a", "b"])
    JavaAnswer(list).apply(asked)
    assert asked == ["a", "b", ["a", "b"]]
