"""``pytest --zk-advise``."""

from __future__ import annotations

import pytest

pytest_plugins = "pytester"

POLLING = """
    from pyzk.server.testing import EmbeddedServer

    def test_fixture(zk_server, zk_client):
        for _ in range(30):
            zk_client.exists("/ready")

    def test_by_hand(zk_client):
        from kazoo.client import KazooClient
        with EmbeddedServer() as server:
            client = KazooClient(server.hosts)
            client.start()
            for _ in range(30):
                client.exists("/{ready}")
            client.stop()
            client.close()
"""


@pytest.fixture(autouse=True)
def strict(pytester: pytest.Pytester) -> None:
    """Everything below runs with warnings as errors."""
    pytester.makeini("[pytest]\nfilterwarnings = error\n")
    pytester.makepyfile(POLLING)


@pytest.mark.parametrize("more", [(), ("-n", "1")], ids=["here", "in a worker"])
def test_a_summary_after_the_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = pytester.runpytest("--zk-advise=warn", *more)
    result.assert_outcomes(passed=2)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*= advice about ZooKeeper clients =*",
            "polling: The client polls: it sends the same request again and again, and gets",
            "Read with a watch, and read again when its event comes; *",
            "  *::test_fixture: exists of /ready had the same answer 30 times in turn",
            "  *::test_by_hand: exists of /{ready} had the same answer 30 times in turn",
        ]
    )


def test_an_error(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest("--zk-advise=error")
    result.assert_outcomes(passed=1, failed=1, errors=1)  # a fixture's server ends after its test
    result.stdout.fnmatch_lines(["polling: exists of /ready had the same answer 30 times in turn. *"])


def test_in_the_ini_file(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nzk_advise = error\n")
    assert pytester.runpytest("-k", "hand").ret == 1


def test_rules_that_are_left_out(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nzk_advise = error\nzk_advise_ignore = polling herd\n")
    pytester.runpytest().assert_outcomes(passed=2)


def test_a_rule_that_there_is_not(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nzk_advise = error\nzk_advise_ignore = pooling\n")
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*zk_advise_ignore: no rule pooling; there are: *, polling, *"])


def test_without(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest()
    result.assert_outcomes(passed=2)
    result.stdout.no_fnmatch_line("*advice*")


@pytest.mark.parametrize("given", [("--zk-advise", "tests"), ("--zk-advise=always",)])
def test_another_word(pytester: pytest.Pytester, given: tuple[str, ...]) -> None:
    result = pytester.runpytest(*given)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*--zk-advise is warn or error, not *; before a path write --zk-advise=warn"]
    )
