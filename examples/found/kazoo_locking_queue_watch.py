"""kazoo's LockingQueue does not see an entry that is put while it waits, after one cut connection.

    pip install pyzk-server kazoo
    python examples/found/kazoo_locking_queue_watch.py

``get`` watches for entries and waits. Its connection is cut: kazoo then calls each watch function with an
event of type ``NONE``, and forgets it. The watch function of ``get`` ignores such an event, so no watch is
left. Somebody puts an entry, and ``get(timeout=...)`` returns None when its time is over. A later ``get``
takes the entry.
"""

from __future__ import annotations

from pyzk.server.sweep import SweepFailed, sweep
from pyzk.server.sweep.threads.lab import ThreadLab


def scenario(lab: ThreadLab) -> None:
    consumer, producer = lab.client("consumer"), lab.client("producer")
    queue = consumer.LockingQueue("/queue")
    queue.put(b"warm-up")
    queue.get()
    queue.consume()
    got = []

    def take() -> None:
        got.append(queue.get(timeout=30))

    def put() -> None:
        producer.retry(producer.LockingQueue("/queue").put, b"entry")

    lab.together(take, put)
    assert got == [b"entry"], f"an entry was put, and a wait of 30 s did not see it: {got}"


if __name__ == "__main__":
    try:
        print(sweep(scenario, orders=None, budget=8))
    except SweepFailed as found:
        print(found)
