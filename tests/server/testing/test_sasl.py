"""Users of SASL inside a test; and nothing that is shown has a secret."""

from __future__ import annotations

import urllib.request

from pyzk import blocking
from pyzk.protocol import records as r
from pyzk.protocol.operations import OpCode
from pyzk.server.testing import EmbeddedEnsemble, EmbeddedServer

from ...support.sasl import USERS, Answer, nonce_of
from ...support.wire import WireClient

PAGES = ("/", "/api/v1/timeline", "/api/v1/sessions", "/commands/configuration", "/commands/connections")
WORDS = ("conf", "cons", "dump", "envi", "mntr")


def test_no_secret_is_shown_anywhere() -> None:
    told: list[str] = []
    with EmbeddedServer(sasl_users=USERS) as server:
        server.running.listen(lambda *entry: told.append(repr(entry)))
        host, _, port = server.hosts.rpartition(":")
        with WireClient((host, int(port))) as client:
            client.connect()
            nonce = nonce_of(client.request(OpCode.SASL, r.GetSASLRequest(b"")).record.token)
            answer = Answer(nonce, cnonce=b"s3cretcnonce")
            reply = client.request(OpCode.SASL, r.GetSASLRequest(answer.token()))
            client.create("/a", b"", (r.ACL(31, r.Id("sasl", "bob")),))
            told += [server.format_timeline(), repr(server), repr(server.history)]
            for page in PAGES:
                with urllib.request.urlopen(f"http://{server.hosts}{page}") as response:
                    told.append(response.read().decode())
            for word in WORDS:
                with WireClient((host, int(port))) as asker:
                    asker.send_bytes(word.encode())
                    told.append(asker.receive_rest().decode())
    assert any("/a" in text for text in told)
    secrets = {
        nonce,
        answer.cnonce,
        answer.response(),
        reply.record.token[8:],
        *map(str.encode, USERS.values()),
    }
    everything = "\n".join(told).encode()
    assert not [secret for secret in secrets if len(secret) > 2 and secret in everything]


def test_every_server_of_a_pretended_ensemble_knows_the_users() -> None:
    with EmbeddedEnsemble(3, sasl_users={"bob": "bobsecret"}) as ensemble:
        for hosts in ensemble.hosts.split(","):
            with blocking.connect(hosts, sasl=("bob", "bobsecret")) as zk:
                assert ("sasl", "bob") in [(info.authScheme, info.user) for info in zk.who_am_i()]
