"""What is sent to Java while a thread is unheard is in no log, whatever other threads do meanwhile."""

from __future__ import annotations

import logging
import threading

import pytest

from tidegate.spark.session import unheard

py4j = logging.getLogger("py4j.clientserver")


def test_the_words_of_a_thread_are_kept_from_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, py4j.name):
        py4j.debug("before")
        with unheard(), unheard():
            py4j.debug("key")
        py4j.debug("after")
    assert caplog.messages == ["before", "after"]


def test_one_thread_that_ends_leaves_another_unheard(caplog: pytest.LogCaptureFixture) -> None:
    inside, over = threading.Event(), threading.Event()

    def other() -> None:
        with unheard():
            inside.set()
            over.wait()
            py4j.debug("the other's key")
        py4j.debug("the other's own")

    thread = threading.Thread(target=other)
    with caplog.at_level(logging.DEBUG, py4j.name):
        with unheard():
            thread.start()
            inside.wait()
        py4j.debug("mine")
        over.set()
        thread.join()
    assert caplog.messages == ["mine", "the other's own"]
