"""A job of Celery's ZooKeeper transport is lost with one lost reply.

    pip install pyzk-server kombu kazoo
    python examples/found/kombu_lost_job.py

A worker takes jobs with ``kazoo.recipe.queue.Queue.get``. It reads the first entry, deletes it, and returns
what it has read. The delete is applied and its reply is lost: the retry finds no such znode, and the recipe
takes the next entry. Nobody has the first job.

Celery calls this transport experimental, and a job is deleted before the worker has done it in any case.
"""

from __future__ import annotations

from contextlib import suppress

from kombu import Connection

from pyzk.server.sweep import SweepFailed, sweep
from pyzk.server.sweep.threads.lab import ThreadLab

JOBS = [{"job": number} for number in range(3)]


def scenario(lab: ThreadLab) -> None:
    with Connection(f"zookeeper://{lab.hosts('worker')}/vhost") as connection:
        queue = connection.SimpleQueue("jobs")
        try:
            for job in JOBS:
                queue.put(job)
            got = []

            def work() -> None:
                with suppress(queue.Empty):
                    while True:
                        message = queue.get_nowait()
                        message.ack()
                        got.append(message.payload)

            lab.together(work)
            work()
            assert got == JOBS, f"three jobs were sent, and these came: {got}"
        finally:
            connection.default_channel.client.stop()
            connection.default_channel.client.close()


if __name__ == "__main__":
    try:
        print(sweep(scenario, orders=None, budget=8))
    except SweepFailed as found:
        print(found)
