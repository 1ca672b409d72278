"""A process that has its children killed: ``python -m support.nursery [spark]``.

It is warm (everything is imported, and with ``spark`` a session is running), reads orders from its input,
one JSON object a line, and carries each out in a fork of itself, which sends itself SIGKILL at the point
the order names: before the n-th call that goes to the disk. Or it stops where it is about to commit, says so
and waits (``support.victim``). The answer says how many calls there were, and how the child ended. With a
session the children speak to the JVM of the nursery over connections of their own: a death costs no new one.
"""

from __future__ import annotations

import collections
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from py4j.protocol import END_COMMAND_PART, MEMORY_COMMAND_NAME, MEMORY_DEL_SUBCOMMAND_NAME

# What others can see of a change, and all that goes to the disk.
VISIBLE = ("link", "replace", "unlink", "mkdir")
CALLS = (*VISIBLE, "open", "write", "fsync")


def dying_at(number: int, calls: Sequence[str], said: int) -> None:
    """From here on this process counts its ``calls``, and dies by SIGKILL before the ``number``-th.

    ``said`` is the pipe that hears the count.
    """
    lock = threading.Lock()
    count = 0
    write = os.write

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            with lock:
                count += 1
                write(said, f"{count}\n".encode())
                if count == number:
                    os.kill(os.getpid(), signal.SIGKILL)
            return original(*args, **kwargs)

        return call

    for name in calls:
        setattr(os, name, counted(getattr(os, name)))


def _own_connections() -> None:
    """Leave the parent's connections to the JVM alone: a fork shares them, and two cannot speak at once.

    The JVM calls back to whoever asked for it last.
    """
    from pyspark import SparkContext
    from pyspark.java_gateway import ensure_callback_server_started

    gateway: Any = SparkContext._gateway
    client = gateway._gateway_client
    # Kept, since a connection that is given up says goodbye.
    client.parents = (client.deque, client.thread_connection, gateway.__dict__.get("_callback_server"))
    client.deque = collections.deque()
    client.thread_connection = threading.local()
    gateway._callback_server = None
    # The JVM tells whoever listens that it has let go of what an earlier fork had handed it, by its number.
    gateway.gateway_property.pool.next_id = os.getpid() * 1_000_000
    ensure_callback_server_started(gateway)


def _work(spark: Any, order: dict[str, Any], said: int) -> None:
    """What the fork does."""
    from support import victims

    if spark is not None:
        _own_connections()
    if "stop" in order:
        from support.interleaving import Between, at_commit
        from support.victim import stop_here

        def stop(operation: object) -> None:
            stop_here(order["stop"], "commit")

        with Between(order["path"], stop, number=1, chosen=at_commit):
            victims.carry_out(spark, order["do"], order["path"])
    else:
        dying_at(order["at"], order["calls"], said)
        victims.carry_out(spark, order["do"], order["path"])


def _newest(spark: Any) -> int:
    """The number of the newest object that the JVM keeps for us; they are numbered in order."""
    return int(spark._jvm.java.lang.Object()._target_id[1:])


@contextmanager
def _left_behind(spark: Any) -> Iterator[None]:
    """Have the JVM let go of what a fork had asked it to keep: who is killed does not do so itself.

    Whole plans would stay, and after some hundred deaths the JVM would do nothing but look for room.
    """
    first = _newest(spark)
    yield
    send = spark.sparkContext._gateway._gateway_client.send_command
    for number in range(first + 1, _newest(spark)):
        send(f"{MEMORY_COMMAND_NAME}{MEMORY_DEL_SUBCOMMAND_NAME}o{number}\n{END_COMMAND_PART}")


def carry_out(spark: Any, order: dict[str, Any]) -> dict[str, Any]:
    """Run one order in a fork."""
    with nullcontext() if spark is None else _left_behind(spark):
        return _forked(spark, order)


def _forked(spark: Any, order: dict[str, Any]) -> dict[str, Any]:
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        code, write = 1, os.write
        try:
            os.close(heard)
            _work(spark, order, said)
            code = 0
        except BaseException as error:
            if "stop" not in order:
                traceback.print_exc()
            write(said, f"{type(error).__name__}\n".encode())
        finally:
            os._exit(code)
    os.close(said)
    with os.fdopen(heard) as pipe:
        lines = pipe.read().splitlines()
    _, status = os.waitpid(pid, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    return {
        "killed": killed,
        "code": None if killed else os.waitstatus_to_exitcode(status),
        "calls": sum(1 for line in lines if line.isdecimal()),
        "error": next((line for line in lines if not line.isdecimal()), None),
    }


def main() -> None:
    spark = None
    from support import victims

    victims.warm()
    if "spark" in sys.argv[1:]:
        from support.session import shared_session

        spark = shared_session()
        spark.range(1).collect()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(carry_out(spark, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
