"""The syntax of zoo.cfg."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyzk.server.config.properties import ConfigError, masked, parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("key=value", {"key": "value"}),
        ("key: value", {"key": "value"}),
        ("key value", {"key": "value"}),
        ("  key \t=\f  a value  ", {"key": "a value"}),
        ("key = = value", {"key": "= value"}),
        ("key", {"key": ""}),
        ("key=", {"key": ""}),
        ("# a comment\n ! another \\\nkey=value # none", {"key": "value # none"}),
        ("a=1\rb=2\r\nc=3\n\n", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1,\\\n   2,\\\r\n\t3\nb=4", {"a": "1,2,3", "b": "4"}),
        ("a=1\\\n# not a comment", {"a": "1# not a comment"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("\\\na=1", {"a": "1"}),
        (r"a\ b\=c\:d=e\ f", {"a b=c:d": "e f"}),
        (r"a=\u0041\t\q\\", {"a": "A\tq\\"}),
        ("a=b\x85c", {"a": "b\x85c"}),
    ],
)
def test_syntax(text, expected):
    assert {key: entry.value for key, entry in parse(text).items()} == expected


def test_a_logical_line_has_the_number_of_its_first_line():
    entries = parse("# one\na=1\\\n  2\n\nb=3")
    assert (entries["a"].line, entries["b"].line) == (2, 5)


def test_a_bad_escape_is_refused_and_its_line_not_shown():
    with pytest.raises(ConfigError) as caught:
        parse("a=1\npassword=s3cret\\u00g0")
    message = str(caught.value)
    assert "zoo.cfg, line 2" in message
    assert "s3cret" not in message


# --- the text as it may be shown ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a=1\r\n# b\rc\\\n  =2\n", "a=1\n# b\nc\\\n  =2\n"),
        ("ssl.keyStore.password=s3cret", "ssl.keyStore.password=***"),
        ("a=1\n  superPassword : s3cret\nb=2", "a=1\n  superPassword=***\nb=2"),
        ("#DigestAuthenticationProvider.superDigest=s3cret", "#DigestAuthenticationProvider.superDigest=***"),
        ("x.password=s3\\\n  cret\\\ns3cret\nb=2", "x.password=***\nb=2"),
        ("x.pass\\\n word=s3cret", "x.password=***"),
        ("x\\.password s3cret", "x.password=***"),
        ("# a comment \\\nx.password=s3cret", "# a comment \\\nx.password=***"),
        ("x.password=s3cret\\", "x.password=***"),
        ("x.passw\\u006frd=s3cret", "x.password=***"),
        ("# x.\\u0070assword\\u0020=s3cret", "# x.password=***"),
        ("x.secretKey=s3cret\nx.token=s3cret", "x.secretKey=***\nx.token=***"),
        ("db.pwd=s3cret\ncredentials=s3cret", "db.pwd=***\ncredentials=***"),
        ("a.privateKey=s3cret\na.api_key=s3cret", "a.privateKey=***\na.api_key=***"),
        ("sasl.user.bob=s3cret\n#sasl.user.b\\u006fb : s3cret", "sasl.user.bob=***\n#sasl.user.bob=***"),
        ("ssl.keyStore.passwordPath=/a/file", "ssl.keyStore.passwordPath=/a/file"),
        ("key=1\ntokens.max=2\nprivate=3", "key=1\ntokens.max=2\nprivate=3"),
    ],
)
def test_the_text_is_shown_without_secrets(text, shown):
    assert masked(text) == shown


@given(st.text(alphabet="ab=#!\\ u\n", max_size=30))
def test_any_text_can_be_shown(text):
    assert masked(text) == text
