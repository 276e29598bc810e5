from pyzk.server.testing import factories

other_client = factories.zk_client()


def test_the_next_worker_takes_over(zk_server, zk_client, other_client):
    zk_client.Lock("/locks/printer", "first").acquire()
    zk_server.expire(zk_client)  # on the server: its ephemeral znodes are deleted
    assert other_client.Lock("/locks/printer", "second").acquire(timeout=10)
