"""Tokens of SASL DIGEST-MD5: right ones, and wrong ones with what a server makes of them.

The response is computed here a second time, from sasl.md section 3 alone: what both sides of the product have
in common cannot be wrong in the same way in both.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

import attrs

REALM = b"zk-sasl-md5"
URI = b"zookeeper/zk-sasl-md5"

USERS = {
    "super": "adminsecret",
    "bob": "bobsecret",
    "alice": "alicesecret",
    "empty": "",
    "f@g": "p1",
    "a@b@c": "p2",
    "a/b/c@D": "p3",
    "müller": "pässword",
    "李": "密码",
    'quo"te\\': "q",
}
_OPTIONS = (
    '"user_{}"="{}"'.format(*(re.sub(r'(["\\])', r"\\\1", text) for text in user)) for user in USERS.items()
)
JAAS = (
    f"Server {{ org.apache.zookeeper.server.auth.DigestLoginModule required\n{chr(10).join(_OPTIONS)};\n}};"
)
"""The same users, for a real server."""


def _h(data: bytes) -> bytes:
    return hashlib.md5(data).hexdigest().encode()


@attrs.frozen
class Answer:
    """What a client makes of a challenge."""

    nonce: bytes
    user: str = "bob"
    password: str = "bobsecret"
    cnonce: bytes = b"cn"

    def response(
        self, *, uri: bytes = URI, authzid: bytes | None = None, check: bytes = b"AUTHENTICATE:"
    ) -> bytes:
        start = hashlib.md5(b":".join((_text(self.user), REALM, _text(self.password)))).digest()
        a1 = b":".join((start, self.nonce, self.cnonce) + (() if authzid is None else (authzid,)))
        return _h(b":".join((_h(a1), self.nonce, b"00000001", self.cnonce, b"auth", _h(check + uri))))

    def token(
        self,
        extra: bytes = b"",
        *,
        uri: bytes = URI,
        authzid: bytes | None = None,
        charset: bytes = b"utf-8",
    ) -> bytes:
        name = self.user.encode().replace(b"\\", b"\\\\").replace(b'"', b'\\"')
        return (
            b'charset=%b,username="%b",realm="%b",nonce="%b",cnonce="%b",digest-uri="%b",response=%b%b%b'
        ) % (
            charset, name, REALM, self.nonce, self.cnonce, uri, self.response(uri=uri, authzid=authzid),
            b"" if authzid is None else b',authzid="%b"' % authzid, extra,
        )  # fmt: skip


def _text(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def nonce_of(challenge: bytes) -> bytes:
    found = re.fullmatch(rb'realm="zk-sasl-md5",nonce="(.{40})",charset=utf-8,algorithm=md5-sess', challenge)
    assert found is not None, challenge
    return found[1]


IN, OUT, CLOSED = "logged in", "refused", "closed without a reply"
Make = Callable[[Answer], bytes]


def _extra(text: str) -> Make:
    return lambda answer: answer.token(text.encode())


def _without(directive: bytes) -> Make:
    return lambda answer: re.sub(directive + rb'=("[^"]*"|[^,]*)(,|$)', b"", answer.token())


def _padded(size: int) -> Make:
    return lambda answer: answer.token().ljust(size, b",")


_NEEDED = ("username", "realm", "nonce", "cnonce", "digest-uri", "response")

TOKENS: dict[str, tuple[Make, str]] = {
    "as it should be": (_extra(""), IN),
    "another nc": (_extra(",nc=00000002"), IN),
    "nc that is no number": (_extra(",nc=zz"), IN),
    "nc twice": (_extra(",nc=00000001,nc=00000001"), IN),
    "nonce-count": (_extra(",nonce-count=1"), IN),
    "another nonce-count": (_extra(",nonce-count=2"), OUT),
    "nonce-count that is no number": (_extra(",nonce-count=zz"), CLOSED),
    "nonce-count as Python writes it": (_extra(",nonce-count=0x1"), CLOSED),
    "digest-uri in capitals": (lambda answer: answer.token(uri=b"ZOOKEEPER/zk-sasl-md5"), IN),
    "digest-uri in capitals, hashed in small letters": (
        lambda answer: answer.token().replace(b'"zookeeper/', b'"ZOOKEEPER/'), OUT
    ),
    "another digest-uri": (lambda answer: answer.token(uri=b"zookeeper/localhost"), OUT),
    "authzid": (lambda answer: answer.token(authzid=b"bob"), IN),
    "authzid of somebody else": (lambda answer: answer.token(authzid=b"alice"), IN),
    "authzid that is not hashed": (_extra(',authzid="alice"'), OUT),
    "charset in capitals": (lambda answer: answer.token(charset=b"UTF-8"), OUT),
    "another charset": (lambda answer: answer.token(charset=b"iso-8859-1"), OUT),
    "no charset": (_without(b"charset"), IN),
    **{f"no {name}": (_without(name.encode()), OUT) for name in _NEEDED},
    **{f"{name} twice": (_extra(f',{name}="a"'), OUT) for name in (*_NEEDED, "charset")},
    **{f"{name} twice": (_extra(f",{name}=a,{name}=a"), OUT) for name in ("cipher", "auth-param", "authzid")},
    **{f"{name} twice": (_extra(f",{name}=a,{name}=a"), IN) for name in ("algorithm", "stale", "x")},
    "maxbuf": (_extra(",maxbuf=65536"), IN),
    "negative maxbuf": (_extra(",maxbuf=-5"), IN),
    "maxbuf with a plus": (_extra(",maxbuf=+5"), IN),
    "maxbuf in other digits": (_extra(",maxbuf=٣"), IN),
    "maxbuf that is no number": (_extra(",maxbuf=x"), CLOSED),
    "maxbuf with a blank": (_extra(',maxbuf=" 5"'), CLOSED),
    "maxbuf with an underscore": (_extra(",maxbuf=1_0"), CLOSED),
    "empty maxbuf": (_extra(',maxbuf=""'), CLOSED),
    "maxbuf of 33 bits": (_extra(",maxbuf=2147483648"), CLOSED),
    "maxbuf of many digits": (_extra(",maxbuf=" + 3000 * "1"), CLOSED),
    "maxbuf alone": (lambda answer: b"maxbuf=x", CLOSED),
    "maxbuf behind a wrong charset": (lambda answer: answer.token(b",maxbuf=x", charset=b"q"), OUT),
    "maxbuf beside a wrong qop": (_extra(",maxbuf=x,qop=auth-int"), CLOSED),
    "qop": (_extra(",qop=auth"), IN),
    "qop in capitals": (_extra(",qop=AUTH"), OUT),
    "empty qop": (_extra(',qop=""'), OUT),
    "qop auth-int": (_extra(",qop=auth-int"), OUT),
    "qop auth-conf": (_extra(",qop=auth-conf"), OUT),
    "a comma at the end": (_extra(","), IN),
    "commas and blanks": (lambda answer: b", ,\t" + answer.token(b",,, ,c=d"), IN),
    "blanks for commas": (lambda answer: answer.token().replace(b",", b"\r\n"), IN),
    "blanks around": (lambda answer: answer.token().replace(b"=", b" = ").replace(b",", b" , "), IN),
    "keys in capitals": (lambda answer: answer.token().replace(b"username", b"USERname"), IN),
    "a key at the end": (_extra(",x"), IN),
    "maxbuf without a value at the end": (_extra(",maxbuf"), CLOSED),
    "a key and a blank at the end": (_extra(",x "), OUT),
    "no value at the end": (_extra(",x="), OUT),
    "an empty value": (_extra(",x=,y=1"), IN),
    "a key without a value": (_extra(",a,b=c"), OUT),
    "two words as a key": (_extra(",a b=c"), OUT),
    "no key": (_extra(",=c"), OUT),
    "a quote in a key": (_extra(',"a"=c'), IN),
    "a quote in a value": (_extra(',a=b"c'), IN),
    "an equals sign in a value": (_extra(",a=b=c"), IN),
    "text behind a quote": (_extra(',a="b"c'), OUT),
    "a blank behind a quote": (_extra(',a="b" c=d'), IN),
    "an open quote": (_extra(',a="b'), OUT),
    "an open escape": (_extra(',a="b\\'), OUT),
    "NUL": (_extra(",\0"), IN),
    "a key that is no text": (lambda answer: answer.token(b",\xff=1"), IN),
    "response in capitals": (lambda answer: answer.token().replace(r := answer.response(), r.upper()), OUT),
    "another realm": (lambda answer: answer.token().replace(b"zk-sasl-md5", b"ZK-SASL-MD5", 1), OUT),
    "another nonce": (lambda answer: attrs.evolve(answer, nonce=b"x" * 40).token(), OUT),
    "an empty cnonce": (lambda answer: attrs.evolve(answer, cnonce=b"").token(), IN),
    "4,096 bytes": (_padded(4096), IN),
    "4,097 bytes": (_padded(4097), OUT),
    "nothing": (lambda answer: b"", OUT),
    "commas alone": (lambda answer: b" ,, ", OUT),
    "no text at all": (lambda answer: bytes(range(256)), OUT),
    "GSSAPI": (lambda answer: b"\x60\x82\x02\x00" + bytes(40), OUT),
}  # fmt: skip
"""What a second token holds, how it is made, and what follows (sasl.md section 4)."""

PASSWORDS: dict[str, tuple[str, str, str]] = {
    "an empty password": ("empty", "", IN),
    "a realm in the name": ("f@g", "p1", IN),
    "letters of ISO 8859-1": ("müller", "pässword", IN),
    "other letters": ("李", "密码", IN),
    "quotes": ('quo"te\\', "q", IN),
    "a wrong password": ("bob", "alicesecret", OUT),
    "a password in capitals": ("bob", "BOBSECRET", OUT),
    "a name in capitals": ("Bob", "bobsecret", OUT),
    "no user": ("ghost", "bobsecret", OUT),
    "a name that cannot be": ("a@b@c", "p2", CLOSED),
    "slashes in a name": ("a/b/c@D", "p3", CLOSED),
    "a name that cannot be, and a wrong password": ("a@b@c", "p", OUT),
    "no name": ("", "x", CLOSED),
}
"""Who logs in with which password, and what follows. A server before 3.9.3 lets in who knows the password of
the user that came before (sasl.md section 13)."""
