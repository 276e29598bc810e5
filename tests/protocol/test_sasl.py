"""The arithmetic of DIGEST-MD5, and tokens that make no sense (sasl.md sections 3 and 4)."""

from __future__ import annotations

import contextlib
import os
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from pyzk.client.auth import SaslLogin, SaslUser
from pyzk.protocol.errors import AuthFailedError
from pyzk.protocol.jute import JuteError
from pyzk.protocol.sasl import directives, proof, quoted, secret
from pyzk.server.core.sasl import Login

from ..support.sasl import TOKENS, USERS, Answer, nonce_of

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)


def test_an_example_of_rfc_2831() -> None:
    """Section 4 of the RFC, with its names."""
    key = secret("chris", "elwood.innosoft.com", "secret")
    nonce, cnonce, uri = b"OA6MG9tEQGm2hh", b"OA6MHXh6VqTrRk", b"imap/elwood.innosoft.com"
    assert proof(key, nonce, cnonce, of_client=True, uri=uri) == b"d388dad90d4bbd760a152321f2143af7"
    assert proof(key, nonce, cnonce, of_client=False, uri=uri) == b"ea40f60335c427b5527b84dbabcdfffd"


@given(st.binary(max_size=40))
def test_what_is_quoted_is_read(value: bytes) -> None:
    assert list(directives(b" x = %b , Y=1" % quoted(value))) == [("x", value), ("y", b"1")]


@given(name=TEXTS.filter(lambda name: name and "@" not in name), password=TEXTS, wrong=TEXTS)
@settings(max_examples=300)
def test_client_and_server_agree_about_every_name_and_password(name: str, password: str, wrong: str) -> None:
    for given_password in {password, wrong}:
        server, client = Login({name: password}, random.randbytes), SaslLogin(SaslUser(name, given_password))
        token = client.answer(server.answer(b""))
        with contextlib.suppress(AuthFailedError):
            assert client.answer(server.answer(token)) == b""
        assert client.over == (server.user == name) == (given_password == password)


_MARKS = [
    b",",
    b"=",
    b'"',
    b"\\",
    b" ",
    b"\t",
    b"\0",
    b"\xff",
    b"@",
    b"auth",
    b"maxbuf=",
    b"nc=",
    b"realm=",
    b"a=b",
]


def mutated(chance: random.Random, token: bytes) -> bytes:
    """A token with some bytes lost, doubled, moved or replaced."""
    data = bytearray(token)
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(4):
            case 0:
                del data[at : at + chance.randrange(1, 9)]
            case 1:
                data[at:at] = chance.choice(_MARKS)
            case 2:
                data[at:at] = data[at : at + chance.randrange(40)]
            case 3:
                data[at : at + 1] = chance.randbytes(1)
    return bytes(data)


def test_no_token_gets_in_or_fails_in_another_way_than_it_may() -> None:
    """Thousands of tokens, 10**6 by night: a login succeeds only by the response to its own challenge."""
    chance = random.Random(20)
    makers = [make for make, _ in TOKENS.values()]
    got_in = refused = closed = leaks = 0
    for number in range(1_000_000 if NIGHTLY else 8_000):
        login = Login(USERS, chance.randbytes)
        answer = Answer(nonce_of(login.answer(chance.randbytes(number % 7))))
        right = number % 2 == 0
        token = chance.choice(makers)(answer if right else Answer(answer.nonce, password="another"))
        token = chance.randbytes(number % 300) if number % 20 == 0 else mutated(chance, token)
        try:
            said = login.answer(token)
        except AuthFailedError as error:
            refused += 1
            leaks += "bobsecret" in str(error) or answer.nonce.decode() in str(error)
        except JuteError as error:
            closed += 1
            leaks += "bobsecret" in str(error) or answer.nonce.decode() in str(error)
        else:
            got_in += 1
            assert right
            assert answer.response() in token or b"authzid" in token or b"digest-uri" in token
            assert said.startswith(b"rspauth=")
        assert login.over
        assert (login.user == "bob") or login.user is None
    assert leaks == 0
    assert min(got_in, refused, closed) > 20, "the tokens are too much alike"


def test_challenges_are_refused_or_answered() -> None:
    """What a server sends is as bad for a client."""
    chance = random.Random(21)
    answered = refused = 0
    for _ in range(1_000_000 if NIGHTLY else 2_000):
        challenge = mutated(chance, Login(USERS, chance.randbytes).answer(b""))
        try:
            said = SaslLogin(SaslUser("bob", "bobsecret")).answer(challenge)
        except AuthFailedError:
            refused += 1
        else:
            answered += 1
            assert b"bobsecret" not in said
    assert min(answered, refused) > 20
