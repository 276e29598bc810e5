"""A test that fails on purpose: docs/tutorial.md explains why, and what to change."""

from pyzk.server.testing import factories

other_client = factories.zk_client()


def test_only_the_leader_reports(zk_server, zk_client, other_client):
    zk_client.create("/leader", b"A", ephemeral=True)
    zk_server.expire(zk_client)
    other_client.create("/leader", b"B", ephemeral=True)
    other_client.create("/report", b"by B")

    zk_client.retry(zk_client.set, "/report", b"by A")

    zk_server.assert_tree({"leader": "B", "report": "by B"})
