"""The users of SASL: keys, the environment, and the JAAS file (sasl.md section 10)."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyzk.server.config.overrides import from_environment
from pyzk.server.config.properties import ConfigError
from pyzk.server.config.sasl import JaasError, users_of
from pyzk.server.config.settings import Settings
from pyzk.server.config.sourced_values import build
from pyzk.server.config.zoocfg import interpret

from ...support.sasl import JAAS, USERS

MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
PROVIDER = "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"


def server(options: str, flag: str = "required") -> str:
    return f"Server {{ {MODULE} {flag} {options}; }};"


READ = [
    ("one user", server('user_bob="b"'), {"bob": "b"}),
    ("no user", server(""), {}),
    ("no module", "Server { };", {}),
    ("an empty password", server('user_bob=""'), {"bob": ""}),
    ("comments", '// x\n/* Server {\n */' + server('/* a */ user_bob="b" // c\n'), {"bob": "b"}),
    ("flags of any case", server('user_bob="b"', "SufFicient"), {"bob": "b"}),
    ("blanks", server('user_bob \t=\n "b"'), {"bob": "b"}),
    ("the later one", server('user_bob="b" user_bob="c"'), {"bob": "c"}),
    ("two modules", server(f'user_a="1" user_b="2"; {MODULE} optional user_b="3"'), {"a": "1", "b": "3"}),
    ("a name like the prefix", server('user_user_x="b"'), {"user_x": "b"}),
    ("other options", server('username="bob" password="x" user_a=b'), {"a": "b"}),
    ("letters", server('user_müller="ü" user_a-b.c$d="1"'), {"müller": "ü", "a-b.c$d": "1"}),
    ("quoted names", server('"user_f@g"="p"'), {"f@g": "p"}),
    ("escapes", server(r'user_a="\"\\\n\t\101\u0041"'), {"a": '"\\\n\tAu0041'}),
    ("a dollar", server('user_a="a$b"'), {"a": "a$b"}),
    ("a bare word", server("user_a=word"), {"a": "word"}),
    ("other sections", "X { a.B required; };" + server("user_a=b") + "Y { c.D required x=y; };", {"a": "b"}),
    ("another case", "server { };", None),
    ("nothing", "", None),
    ("those of the tests", JAAS, USERS),
]  # fmt: skip


@pytest.mark.parametrize(("text", "users"), [row[1:] for row in READ], ids=[row[0] for row in READ])
def test_what_is_read(text: str, users: dict[str, str] | None) -> None:
    assert users_of(text) == users


WRONG = [
    ("no semicolon behind the options", f'Server {{ {MODULE} required user_a="s3cret" }};', "there must be"),
    ("no semicolon at the end", f'Server {{ {MODULE} required user_a="s3cret"; }}', "';' is missing"),
    ("no flag", f"Server {{ {MODULE}; }};", "there must be required"),
    ("another flag", server("", "always"), "there must be required"),
    ("no value", server("user_a"), "'=' is missing"),
    ("a bare at sign", server('user_a@b="s3cret"'), "'@' is not allowed here"),
    ("a number", server("user_a=1"), "'1' is not allowed here"),
    ("single quotes", server("user_a='s3cret'"), "is not allowed here"),
    ("commas", server('user_a="s3cret", user_b="s3cret"'), "',' is not allowed here"),
    ("a comment of the shell", "# s3cret\n" + server(""), "'#' is not allowed here"),
    ("two lines", server('user_a="s3\ncret"'), "is not allowed here"),
    ("an open comment", "/* s3cret", "is not allowed here"),
    ("a property", server('user_a="${s3cret}"'), "property of a JVM"),
    ("a section twice", server("") + server(""), "a second section 'Server'"),
    ("a wrong section behind it", server("user_a=s3cret") + "X { y };", "there must be required"),
    ("Kerberos", "Server { com.sun.security.auth.module.Krb5LoginModule required; };", "GSSAPI (Kerberos)"),
    ("another module", "Server { com.example.Ours required; };", "com.example.Ours is not supported; "
    "only DIGEST-MD5"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_what_cannot_be_read(text: str, words: str) -> None:
    with pytest.raises(JaasError) as caught:
        users_of("\n" + text, name="some.conf")
    assert str(caught.value).startswith("some.conf, line ")
    assert words in str(caught.value)
    assert "s3cret" not in str(caught.value)


@given(st.text() | st.text(alphabet='Server {}_=";a\\/*\n$'))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(JaasError):
        users = users_of(text)
        assert users is None or "Server" in text


# --- files and keys ----------------------------------------------------------------------------------------


@pytest.fixture
def jaas(tmp_path: Path) -> str:
    path = tmp_path / "jaas.conf"
    path.write_text(JAAS, encoding="utf-8")
    return f"java.security.auth.login.config={path}\n"


def test_a_file_needs_a_provider_beside_it_and_a_key_does_not(jaas: str) -> None:
    alone, provided, more = (
        build(interpret(jaas + text).values) for text in ("", PROVIDER, "sasl.user.bob=new")
    )
    assert alone.sasl_users == provided.sasl_users == USERS
    assert (alone.sasl_enabled, provided.sasl_enabled, more.sasl_enabled) == (False, True, True)
    assert more.sasl_users == {**USERS, "bob": "new"}


def test_another_section(tmp_path: Path) -> None:
    path = tmp_path / "jaas.conf"
    path.write_text(server('user_a="1"').replace("Server", "Other"))
    text = f"java.security.auth.login.config={path}"
    configuration = interpret(text)
    assert build(configuration.values).sasl_users is None
    [warning] = configuration.warnings
    assert "has no section 'Server'" in warning
    assert build(interpret(f"{text}\nsasl.serverconfig=Other").values).sasl_users == {"a": "1"}


@pytest.mark.parametrize("content", [b"Server { x }", b"\xff\xfe"])
def test_a_file_that_cannot_be_read_names_the_key_and_the_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "jaas.conf"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"^zoo.cfg, line 1: java.security.auth.login.config: .*jaas.conf"):
        interpret(f"java.security.auth.login.config={path}")


def test_users_from_the_environment() -> None:
    entries, warnings = from_environment({"PYZK_SASL_USER_Bob": "b", "PYZK_SUPER_USER_1": "Bob"})
    assert [(entry.key, entry.value) for entry in entries] == [("sasl.user.Bob", "b"), ("superUser.1", "Bob")]
    assert warnings == []


def test_the_examples_of_the_documentation(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
    section = text.partition("\n## SASL\n")[2].partition("\n## ")[0]
    keys, file = re.findall(r"```ini\n(.*?)```", section, re.DOTALL)
    settings = build(interpret(keys).values)
    assert settings.sasl_users == {"bob": "bobsecret"}
    assert (settings.sasl_super_users, settings.required_auth_schemes) == ({"bob"}, {"sasl"})
    path = tmp_path / "jaas.conf"
    path.write_text(server('user_ann="a"'))
    [provider] = re.findall(r"`(authProvider\..*?)`", section)
    given = interpret(f"{file.replace('/etc/zookeeper/jaas.conf', str(path))}\n{provider}").values
    assert (build(given).sasl_users, build(given).sasl_enabled) == ({"ann": "a"}, True)


def test_an_enforced_login_needs_users() -> None:
    with pytest.raises(ConfigError, match=r"sessionRequireClientSASLAuth .* sasl.user.bob=secret"):
        build(interpret("sessionRequireClientSASLAuth=true").values)


def test_users_in_settings_are_text() -> None:
    for users in ({"bob": 1}, {"bob": "\ud800"}, [("bob", "b")], {b"bob": "b"}):
        with pytest.raises(ValueError, match="must be passwords by user name"):
            Settings(sasl_users=users)  # type: ignore[arg-type]
