"""Access control alone: who one is, what an ACL may hold, who may do what (semantics.md section 8)."""

from __future__ import annotations

import hashlib
import logging
from ipaddress import IPv6Address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyzk.protocol.constants import Perms
from pyzk.protocol.errors import AuthFailedError, InvalidACLError, NoAuthError, ZooKeeperError
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import ACL, OPEN_ACL, READ_ACL, AuthPacket, Id
from pyzk.server.config.settings import Settings
from pyzk.server.core import acl as acl_module
from pyzk.server.core.acl import MAX_IDENTITIES, MAX_IDENTITIES_SIZE, SUPER, AccessControl, LongACL
from pyzk.server.net.service import java_address

from ...support.counting import count_instructions
from ...support.requests import acl, digest_id
from ...support.world import World

PEER = "10.1.2.3"
IP = Id("ip", PEER)
ANNE, BERT = Id("digest", digest_id("anne:a")), Id("digest", digest_id("bert:b"))
CERTIFICATE = Id("x509", "CN=anne,O=x")


def control(**settings: Any) -> AccessControl:
    return AccessControl(Settings(**settings))


# --- 8.4: becoming somebody --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("credentials", "identity"),
    [
        (b"u:p", "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ="),
        (b"super:test", "super:D/InIHSb7yEEbrWz8b9l71RjZJU="),
        (b"a:b", "a:3OptnM09ILoVSfbZtd3mB0IViII="),
        (b"u:p:q", digest_id("u:p:q")),
        (b"nocolon", digest_id("nocolon")),
        (b"", digest_id("")),
        ("é:ü".encode(), digest_id("é:ü")),
    ],
)
def test_digest_hashes_user_and_password(credentials: bytes, identity: str) -> None:
    assert control().authenticate("digest", credentials, PEER) == [Id("digest", identity)]


@pytest.mark.parametrize(
    ("name", "algorithm"),
    [
        ("SHA1", "sha1"),
        ("sha-1", "sha1"),
        ("SHA", "sha1"),
        ("SHA-256", "sha256"),
        ("SHA-512", "sha512"),
        ("SHA-512/256", "sha512_256"),
        ("SHA3-256", "sha3_256"),
        ("MD5", "md5"),
    ],
)
def test_every_digest_that_the_settings_accept_can_be_used(name: str, algorithm: str) -> None:
    (identity,) = control(digest_algorithm=name).authenticate("digest", b"u:p", PEER)
    assert identity.id == digest_id("u:p", algorithm)


def test_the_ip_scheme_adds_the_peers_address_whatever_is_sent() -> None:
    assert control().authenticate("ip", b"192.168.0.1", PEER) == [IP]


@pytest.mark.parametrize("scheme", ["world", "auth", "super", "sasl", "x509", "ensemble", "DIGEST", "", None])
def test_other_schemes_are_refused(scheme: str | None) -> None:
    # wire.md section 12.1
    with pytest.raises(AuthFailedError):
        control().authenticate(scheme, b"u:p", PEER)


def test_null_credentials_are_refused() -> None:
    with pytest.raises(AuthFailedError):
        control().authenticate("digest", None, PEER)


def test_digest_can_be_disabled() -> None:
    with pytest.raises(AuthFailedError):
        control(digest_enabled=False).authenticate("digest", b"u:p", PEER)


def test_the_super_digest_grants_super_beside_the_digest_identity() -> None:
    # semantics.md section 18, trap 29
    access = control(super_digest="super:D/InIHSb7yEEbrWz8b9l71RjZJU=")
    digest = Id("digest", "super:D/InIHSb7yEEbrWz8b9l71RjZJU=")
    assert access.authenticate("digest", b"super:test", PEER) == [SUPER, digest]
    assert SUPER not in access.authenticate("digest", b"super:wrong", PEER)


def test_a_certificate_of_the_x509_super_user_grants_super() -> None:
    access = control(x509_super_user="CN=root")
    assert access.certificate_identities("CN=root") == [Id("x509", "CN=root"), Id("super", "CN=root")]
    assert access.certificate_identities("CN=anne") == [Id("x509", "CN=anne")]


@pytest.mark.parametrize(
    ("identity", "user"),
    [(ANNE, "anne"), (IP, PEER), (SUPER, ""), (Id("super", "CN=x"), ""), (CERTIFICATE, "CN=anne,O=x")],
)
def test_the_user_that_who_am_i_shows(identity: Id, user: str) -> None:
    # semantics.md section 18, trap 39
    assert control().user_of(identity) == user


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1"),
        ("2001:db8::00ff", "2001:db8:0:0:0:0:0:ff"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
    ],
)
def test_addresses_are_shown_as_java_prints_them(address: str, shown: str) -> None:
    assert java_address(address) == shown


@pytest.mark.parametrize(
    ("credentials", "accepted"),
    [
        ([b"u%d:p" % i for i in range(100)], MAX_IDENTITIES - 1),  # the address is one
        ([b"u%d:p" % (i % 5) for i in range(100)], 100),
        ([b"x" * MAX_IDENTITIES_SIZE + b":p"], 0),
        ([b"%d" % i * 10_000 + b":p" for i in range(10)], 6),
    ],
    ids=["many", "few again and again", "a long one", "some long ones"],
)
def test_the_identities_of_a_connection_are_bounded(
    credentials: list[bytes], accepted: int, caplog: pytest.LogCaptureFixture
) -> None:
    client = World().connect()
    for text in credentials[:accepted]:
        assert client.auth("digest", text).err == 0
    if accepted == len(credentials):
        return
    with caplog.at_level(logging.WARNING, "pyzk"):
        assert client.auth("digest", credentials[accepted]).err == -115
    assert client.closed
    (record,) = caplog.records
    assert "32 identities" in record.getMessage()
    assert len(client.connection.identities) <= MAX_IDENTITIES


# --- 8.2: the check ----------------------------------------------------------------------------------------

# ACL, wanted permission, identities, allowed
CHECKS: list[tuple[str, list[ACL], int, list[Id], bool]] = [
    ("empty list", [], Perms.WRITE, [], True),
    ("world", [acl(31)], Perms.WRITE, [], True),
    ("world without the bit", [acl(1)], Perms.WRITE, [IP], False),
    ("any common bit suffices", [acl(16)], Perms.READ | Perms.ADMIN, [], True),
    ("perms -1", [acl(-1)], Perms.DELETE, [], True),
    ("perms 0", [acl(0)], Perms.READ, [IP], False),
    ("super bypasses perms 0", [acl(0)], Perms.READ, [IP, SUPER], True),
    ("any identity of scheme super", [acl(0)], Perms.READ, [Id("super", "CN=x")], True),
    ("ip", [acl(31, "ip", PEER)], Perms.READ, [IP], True),
    ("other ip", [acl(31, "ip", "10.1.2.4")], Perms.READ, [IP], False),
    ("digest", [acl(31, *("digest", ANNE.id))], Perms.READ, [IP, ANNE], True),
    ("other digest", [acl(31, *("digest", ANNE.id))], Perms.READ, [IP, BERT], False),
    ("the id under another scheme", [acl(31, "digest", PEER)], Perms.READ, [IP], False),
    ("second entry", [acl(1), acl(2, "ip", PEER)], Perms.WRITE, [IP], True),
    ("second identity", [acl(2, *("digest", BERT.id))], Perms.WRITE, [ANNE, BERT], True),
    ("no provider of the scheme", [acl(31, "sasl", "x")], Perms.READ, [Id("sasl", "x")], False),
    ("auth is never stored, and matches nobody", [acl(31, "auth", "")], Perms.READ, [ANNE], False),
    ("world needs anyone", [acl(31, "world", "x")], Perms.READ, [Id("world", "x")], False),
]


@pytest.mark.parametrize(
    ("entries", "perm", "who", "allowed"), [row[1:] for row in CHECKS], ids=[row[0] for row in CHECKS]
)
def test_who_may_do_what(entries: list[ACL], perm: int, who: list[Id], allowed: bool) -> None:
    access = control()
    assert access.allows(entries, perm, who) is allowed
    if allowed:
        access.check(entries, perm, who, "/p")
    else:
        with pytest.raises(NoAuthError):
            access.check(entries, perm, who, "/p")


def test_skip_acl_allows_everything() -> None:
    assert control(skip_acl=True).allows([acl(0)], Perms.WRITE, [])


@pytest.mark.parametrize(
    ("wanted", "peer", "matches"),
    [
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3/32", "10.1.2.3", True),
        ("10.1.2.0/24", "10.1.2.255", True),
        ("10.1.2.0/24", "10.1.3.0", False),
        ("10.1.2.77/24", "10.1.2.1", True),
        ("10.0.0.0/7", "11.255.0.1", True),
        ("10.0.0.0/7", "12.0.0.1", False),
        ("0.0.0.0/0", "1.2.3.4", True),
        ("0.0.0.0/0", "0:0:0:0:0:0:0:1", False),
        ("::/0", "1.2.3.4", False),
        ("::1", "0:0:0:0:0:0:0:1", True),
        ("2001:db8::/32", "2001:db8:0:0:0:0:0:ff", True),
        ("2001:db8::/32", "2001:db9:0:0:0:0:0:ff", False),
        ("2001:DB8::FF", "2001:db8:0:0:0:0:0:ff", True),
    ],
)
def test_ip_ids_are_compared_under_their_mask(wanted: str, peer: str, matches: bool) -> None:
    # semantics.md section 8.4: families never match each other
    assert control().allows([acl(1, "ip", wanted)], Perms.READ, [Id("ip", peer)]) is matches


# --- long ACLs, and what a check costs, counted and not timed ----------------------------------------------

SOME_IDS = st.one_of(
    st.builds(Id, st.just("ip"), st.sampled_from(["10.1.2.3", "10.1.2.4", "010.1.2.3", "::1", "junk"])),
    st.builds(
        Id, st.just("ip"), st.sampled_from(["10.1.0.0/16", "10.1.2.3/30", "0.0.0.0/0", "::/0", "::1/127"])
    ),
    st.builds(
        Id, st.sampled_from(["digest", "x509", "sasl"]), st.sampled_from(["a:b", "CN=a", "10.1.2.3", None])
    ),
    st.builds(Id, st.sampled_from(["world", "auth", "super"]), st.sampled_from(["anyone", "", "a:b"])),
)
SOMEBODY = SOME_IDS.filter(lambda who: "/" not in (who.id or ""))  # who has an address, not a network
SOME_PERMS = st.sampled_from([0, 1, 2, 31, -1])


@given(
    st.lists(st.builds(ACL, SOME_PERMS, SOME_IDS), min_size=1),
    SOME_PERMS,
    st.lists(SOMEBODY, max_size=3),
)
def test_a_long_acl_allows_what_its_entries_allow(entries: list[ACL], perm: int, who: list[Id]) -> None:
    access = control(x509_enabled=True)
    assert access.allows(LongACL(entries), perm, who) is access.allows(entries, perm, who)


def entries_of(count: int) -> list[ACL]:
    kinds = [("ip", "10.2.{}.{}"), ("ip", "10.3.{}.{}/31"), ("digest", "u{}:{}")]
    return [acl(1, kinds[i % 3][0], kinds[i % 3][1].format(i // 256, i % 256)) for i in range(count)]


@pytest.mark.parametrize("last", [acl(1, *("digest", ANNE.id)), acl(1, "ip", PEER), acl(2)])
@pytest.mark.parametrize("perm", [Perms.READ, Perms.WRITE])
def test_the_number_of_entries_does_not_matter(last: ACL, perm: int) -> None:
    access, costs = control(), []
    for count in (30, 3000):
        stored = access.validate([*entries_of(count), last], [], "/p")
        access.allows(stored, perm, [IP, ANNE])
        costs.append(count_instructions(lambda stored=stored: access.allows(stored, perm, [IP, ANNE])))  # type: ignore[misc]
    assert costs[0] == costs[1]


def test_nobody_can_choose_ids_that_are_slow_to_look_up() -> None:
    prime = 2**61 - 1  # Python's hash of a number is its remainder
    addresses = [IPv6Address(i * prime).exploded for i in range(1, 1000)]
    (numbers,) = LongACL([acl(1, "ip", address) for address in addresses])._index[1].values()
    assert len({hash(number) for number in numbers}) == 999


def test_ids_of_short_acls_are_read_once() -> None:
    access = control()
    stored = access.validate(entries_of(6), [], "/p")
    access.allows(stored, Perms.READ, [IP])
    before = acl_module._parse_network.cache_info().misses
    for _ in range(10):
        access.allows(stored, Perms.READ, [IP])
    assert acl_module._parse_network.cache_info().misses == before


@pytest.mark.parametrize("entries", [[acl(31, *("digest", ANNE.id))], entries_of(50), [acl(31, "auth", "")]])
def test_equal_acls_are_stored_once(entries: list[ACL]) -> None:
    access = control()
    again = [ACL(e.perms, Id(e.id.scheme, e.id.id)) for e in entries]
    assert access.validate(again, [ANNE], "/p") is access.validate(entries, [ANNE], "/q")


def test_what_auth_stands_for_is_never_taken_from_somebody_else() -> None:
    access = control()
    entries = [acl(31, "auth", "")]
    for who in ([ANNE], [BERT], [ANNE, BERT], [IP, BERT]):
        expected = [ACL(31, identity) for identity in who if identity != IP]
        assert list(access.validate(entries, who, "/p")) == expected
    assert validated(access, entries, [IP]) == -114


def test_few_acls_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_module, "_MAX_REMEMBERED", 20_000)
    access = control()
    for i in range(300):
        access.validate([acl(1, "ip", f"10.1.{i // 256}.{i % 256}")], [], "/p")
        assert len(access._known) <= 50
    access.validate(entries_of(200), [], "/p")
    long = acl(1, "digest", f"{'x' * 30_000}:y")
    access.validate([long], [], "/p")
    assert len(access._known) <= 50
    access.validate([acl(1, "auth", "")], [long.id], "/p")
    assert not any(long.id in mine for _, mine in access._known)


# --- 8.3: validation ---------------------------------------------------------------------------------------

# entries, what is stored or the error code
BOTH = [IP, ANNE, BERT]
VALIDATION: list[tuple[str, Any, list[Id], Any]] = [
    ("null list", None, [], -114),
    ("empty list", [], [], -114),
    ("world", [acl(31)], [], [acl(31)]),
    ("world, other id", [acl(31, "world", "anybody")], [], -114),
    ("world, null id", [acl(31, "world", None)], [], -5),
    ("null scheme", [acl(31, None, "anyone")], [], -114),
    ("unknown scheme", [acl(31, "nope", "x")], [], -114),
    ("unknown scheme, null id", [acl(31, "nope", None)], [], -114),
    ("super is no provider", [acl(31, "super", "")], [SUPER], -114),
    ("super is no provider, null id", [acl(31, "super", None)], [SUPER], -114),
    ("sasl is not registered", [acl(31, "sasl", "x")], [], -114),
    ("x509 is not registered", [acl(31, "x509", "CN=x")], [], -114),
    ("x509 is not registered, null id", [acl(31, "x509", None)], [], -114),
    ("scheme in other case", [acl(31, "WORLD", "anyone")], [], -114),
    ("perms are not validated", [acl(0), acl(-1), acl(64)], [], [acl(0), acl(-1), acl(64)]),
    ("exact duplicates are dropped", [acl(1), acl(31), acl(1)], [], [acl(1), acl(31)]),
    ("one bad entry spoils it", [acl(31), acl(31, "ip", "x")], [], -114),
    ("auth of nobody", [acl(31, "auth", "")], [IP], -114),
    ("auth does not count super", [acl(31, "auth", "")], [IP, SUPER], -114),
    ("auth of one", [acl(3, "auth", "ignored")], [IP, ANNE], [ACL(3, ANNE)]),
    ("auth, null id", [acl(3, "auth", None)], [IP, ANNE], [ACL(3, ANNE)]),
    ("auth of several", [acl(3, "auth", "")], BOTH, [ACL(3, ANNE), ACL(3, BERT)]),
    ("auth of a certificate", [acl(3, "auth", "")], [CERTIFICATE], [ACL(3, CERTIFICATE)]),
    (
        "duplicates after expansion are kept",
        [acl(3, "auth", "x"), acl(3, "auth", "y"), ACL(3, ANNE)],
        [ANNE],
        [ACL(3, ANNE)] * 3,
    ),
    (
        "auth entries equal before expansion are dropped",
        [acl(3, "auth", ""), acl(3, "auth", "")],
        [ANNE],
        [ACL(3, ANNE)],
    ),
    ("the order is kept", [acl(2, "ip", PEER), acl(1)], [], [acl(2, "ip", PEER), acl(1)]),
]


def validated(access: AccessControl, entries: Any, who: list[Id]) -> Any:
    try:
        return list(access.validate(entries, who, "/p"))
    except ZooKeeperError as error:
        return error.code


@pytest.mark.parametrize(
    ("entries", "who", "stored"), [row[1:] for row in VALIDATION], ids=[row[0] for row in VALIDATION]
)
def test_what_is_stored(entries: Any, who: list[Id], stored: Any) -> None:
    assert validated(control(), entries, who) == stored
    # semantics.md section 18, trap 31
    assert validated(control(skip_acl=True), entries, who) == stored


# a packet of 10,000 bytes, so many auth entries for two identities of 33 characters, and whether they fit
@pytest.mark.parametrize(("entries", "fit"), [(1, True), (90, True), (100, False), (50_000, False)])
def test_an_acl_that_no_packet_could_hold_is_refused(entries: int, fit: bool) -> None:
    access = control(max_buffer=10_000)
    asked = [acl(1, "auth", str(i)) for i in range(entries)]
    if fit:
        assert len(access.validate(asked, [ANNE, BERT], "/p")) == 2 * entries
        return
    with pytest.raises(InvalidACLError, match=r"jute\.maxbuffer"):
        access.validate(asked, [ANNE, BERT], "/p")


IDS: list[tuple[str, str, bool]] = [
    *(("digest", text, True) for text in ("a:b", "a:b:", "a:b::", ":b", ": ")),
    *(("digest", text, False) for text in ("", ":", "::", "abc", "a:", "a:b:c", "::b")),
    *(("ip", text, True) for text in ("1.2.3.4", "255.255.255.255", "1.2.3.4/0", "1.2.3.4/32", "::", "::1")),
    *(("ip", text, True) for text in ("1:2:3:4:5:6:7:8", "fe80::abcd", "::/0", "::1/128", "1::8", "ABCD::")),
    *(
        ("ip", text, False)
        for text in ("", "localhost", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.-1", "1.2.3.a")
    ),
    *(
        ("ip", text, False)
        for text in ("1.2.3.4/33", "1.2.3.4/-1", "1.2.3.4/", "1.2.3.4/x", "/8", "1.2.3.4/8/8")
    ),
    *(
        ("ip", text, False)
        for text in ("1::2::3", "12345::", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "::1/129")
    ),
    *(
        ("ip", text, False)
        for text in ("::1.2.3.4", "::ffff:1.2.3.4", "fe80::1%eth0", ":", ":1", "::g", "::1\0")
    ),
    *(("ip", text, False) for text in ("1.2.3.4\0", "\0", "::\ufffd", "1.2.3.٤")),
]


@pytest.mark.parametrize(("scheme", "text", "valid"), IDS, ids=[f"{row[0]} {row[1]!a}" for row in IDS])
def test_which_ids_an_acl_may_hold(scheme: str, text: str, valid: bool) -> None:
    # semantics.md section 8.4, "valid ACL id"
    entry = acl(31, scheme, text)
    assert validated(control(emulate="3.9.4"), [entry], []) == ([entry] if valid else -114)
    before = valid and not (scheme == "ip" and ":" in text)
    assert validated(control(emulate="3.9.3"), [entry], []) == ([entry] if before else -114)


def test_digest_ids_are_not_valid_where_digest_is_disabled() -> None:
    assert validated(control(digest_enabled=False), [acl(31, "digest", "a:b")], []) == -114


def test_the_open_acl_is_stored_as_the_very_object_that_is_recognised() -> None:
    access = control()
    assert access.validate([acl(31)], [], "/p") is OPEN_ACL
    assert access.validate([acl(31), acl(31)], [], "/p") is OPEN_ACL
    assert access.validate(READ_ACL, [], "/p") == READ_ACL


# --- 8.6: masking ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("who", "settings", "shown"),
    [
        ([IP], {}, "anne:x"),
        ([BERT], {}, ANNE.id),
        ([SUPER], {}, ANNE.id),
        ([IP], {"skip_acl": True}, ANNE.id),
    ],
    ids=["without ADMIN", "with ADMIN", "super", "skipACL"],
)
def test_digests_are_shown_to_those_with_admin(who: list[Id], settings: dict[str, Any], shown: str) -> None:
    entries = [acl(1), ACL(1, ANNE), ACL(16, BERT), acl(2, "ip", PEER)]
    masked = control(**settings).masked(entries, who)
    assert masked[1] == acl(1, "digest", shown)
    assert [masked[0], masked[3]] == [entries[0], entries[3]]


@pytest.mark.parametrize(("stored", "shown"), [("a:b", "a:x"), (":b", ":x"), ("a:b\nc", "a:x")])
def test_everything_from_the_first_colon_is_masked(stored: str, shown: str) -> None:
    assert control().masked([acl(1, "digest", stored)], []) == [acl(1, "digest", shown)]


def test_the_helper_of_these_tests_hashes_as_the_specification_says() -> None:
    assert digest_id("u:p") == "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ="
    assert digest_id("u:p", "sha256") != digest_id("u:p")
    assert hashlib.new("sha512_256").digest_size == 32


# --- the ensemble scheme: who looks for another ensemble is turned away -------------------------------------


@pytest.mark.parametrize(
    ("names", "sent", "result"),
    [
        ({"one", "two"}, b"one", "success"),
        ({"one", "two"}, b"", "skip"),
        ({"one", "two"}, None, "skip"),
        (set(), b"other", "skip"),
        ({"one", "two"}, b"other", "fail"),
        ({"one", "two"}, b"one,two", "fail"),
    ],
)
def test_the_name_of_the_ensemble(names: set[str], sent: bytes | None, result: str) -> None:
    # semantics.md section 8.4
    world = World(ensemble_names=frozenset(names))
    client = world.connect()
    answered = client.exchange(client.encode(OpCode.AUTH, AuthPacket(0, "ensemble", sent), -4))
    assert (bool(answered), client.closed) == (result != "fail", result == "fail")
    assert world.engine.stats.ensemble_auth == {"success": 0, "fail": 0, "skip": 0} | {result: 1}
    assert len(client.connection.identities) == 1
    assert f"zk_ensemble_auth_{result}\t1\n".encode() in world.open().exchange(b"mntr")


def test_the_name_of_an_ensemble_is_no_identity() -> None:
    client = World(ensemble_names=frozenset({"one"})).connect()
    assert client.auth("ensemble", b"one").err == 0
    assert client.create("/n", acl=[acl(31, "ensemble", "one")]).err == -114
    assert client.create("/n", acl=[acl(31, "auth", "")]).err == -114


def test_without_the_provider_the_scheme_is_unknown() -> None:
    assert World().connect().auth("ensemble", b"one").err == -115


def test_the_index_of_a_long_acl_is_made_by_who_sets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [acl(1, "ip", f"10.0.{n >> 8}.{n & 255}/{n % 33}") for n in range(1000)]
    access = control()
    stored = access.validate(entries, [], "/a")
    assert isinstance(stored, LongACL)
    looked_at = 0

    def look(wanted: str) -> None:
        nonlocal looked_at
        looked_at += 1

    monkeypatch.setattr(acl_module, "_ip_network", look)
    access.allows(stored, 1, [Id("ip", "10.0.1.7")])
    assert looked_at == 1, "the address that asks"


@pytest.mark.parametrize(
    "text", ["1.2.3.4", "255.255.255.255", "0.0.0.0", "01.2.3.4", "1.2.3", "256.1.1.1", "1.2.3.4.5"]
)
def test_a_plain_address_needs_no_network(text: str) -> None:
    who = [Id("ip", "1.2.3.4")]
    entries = [acl(1, "ip", f"9.9.{n}.9") for n in range(200)] + [acl(1, "ip", text)]
    access = control()
    assert access.allows(LongACL(entries), 1, who) is access.allows(tuple(entries), 1, who)
    assert len(LongACL(entries)._index[1]) <= 1


def test_what_is_said_of_a_refusal_costs_the_same_for_a_long_acl() -> None:
    access, costs, said = control(), [], ""
    for count in (300, 3000):
        stored = access.validate(entries_of(count), [], "/p")
        with pytest.raises(NoAuthError) as refused:
            access.check(stored, Perms.READ, [], "/p")
        costs.append(count_instructions(lambda error=refused.value: str(error)))  # type: ignore[misc]
        said = str(refused.value)
    assert costs[1] < 1.1 * costs[0]
    assert "and 2,980 more]" in said


def test_a_long_acl_that_is_refused_is_looked_at_no_further() -> None:
    """Each auth entry stands for all identities of the client, so a few hundred of them exceed a packet."""
    looked_up = 0

    class Counted(ACL):
        def __hash__(self) -> int:
            nonlocal looked_up
            looked_up += 1
            return super().__hash__()

    mine = [Id("digest", f"user{n}:{'x' * 27}=") for n in range(30)]
    entries = [Counted(n, Id("auth", "")) for n in range(60_000)]
    with pytest.raises(InvalidACLError, match="does not fit into a packet"):
        control().validate(entries, mine, "/a")
    assert looked_up < 2_000
