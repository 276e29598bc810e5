"""Who has killed all servers over HTTP, or with ``pyzk``, can start them again."""

from __future__ import annotations

import socket
from urllib.error import URLError

import pytest

from pyzk.cli.main import main
from pyzk.server.testing import EmbeddedEnsemble, EmbeddedServer

from .asking import ask


def connects(ensemble: EmbeddedEnsemble, number: int) -> bool:
    """Whether a client of ZooKeeper gets any answer."""
    try:
        with socket.create_connection((ensemble[number].host, ensemble[number].port), timeout=10) as sock:
            sock.sendall(b"ruok")
            return bool(sock.recv(4))
    except ConnectionError:
        return False


def test_over_http(ensemble: EmbeddedEnsemble) -> None:
    for number in (1, 3, 2):
        shown = ask(ensemble[number].url, "/ensemble/kill", {"server": number})
    assert [server["role"] for server in shown["servers"]] == ["down"] * 3
    assert not any(connects(ensemble, number) for number in ensemble.numbers)
    assert ensemble.url == ensemble[2].url
    url = ensemble.url
    assert ask(url, "/ensemble/start", {"server": 3})["servers"][2]["role"] == "looking"
    with pytest.raises(URLError):
        ask(url, "/ensemble")  # it was the last one, and is not any more
    assert ensemble.url == ensemble[3].url
    assert ask(ensemble.url, "/ensemble/calm", {})["leader"] is not None
    assert all(connects(ensemble, number) for number in ensemble.numbers)


def test_in_a_terminal(ensemble: EmbeddedEnsemble, capsys: pytest.CaptureFixture[str]) -> None:
    def pyzk(*words: str) -> str:
        capsys.readouterr()
        assert main(["--hosts", ensemble.hosts, "ensemble", *words]) == 0
        return capsys.readouterr().out

    for number in "123":
        shown = pyzk("kill", number)
    assert shown.count(" down ") == 3
    pyzk("start", "1")
    pyzk("start", "2")
    assert pyzk("elect").count(" leader ") == 1


def test_a_nemesis_that_was_asked_for_over_http_kills_the_last(ensemble: EmbeddedEnsemble) -> None:
    ask(ensemble[1].url, "/ensemble")
    for number in ensemble.numbers:
        ensemble.kill(number)  # another than that one is the last
    assert ask(ensemble.url, "/ensemble/calm", {})["leader"] == 3


def test_in_python_alone_all_refuse(ensemble: EmbeddedEnsemble) -> None:
    for number in ensemble.numbers:
        ensemble.kill(number)
    for number in ensemble.numbers:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((ensemble[number].host, ensemble[number].port), timeout=10)
    ensemble.start(1)
    assert connects(ensemble, 1)


def test_the_url_is_that_of_a_server_that_runs(ensemble: EmbeddedEnsemble) -> None:
    assert ensemble.url == ensemble[1].url
    ensemble.kill(1)
    assert ask(ensemble.url, "/ensemble")["server"] == 2
    ensemble.start(1)
    assert ensemble.url == ensemble[1].url


def test_the_url_of_an_ensemble_that_was_started_over_http() -> None:
    with EmbeddedServer() as server:
        made = ask(server.url, "/servers", {"ensemble": 3})
        ask(made["url"], "/ensemble/kill", {"server": 1})
        again = ask(server.url, f"/servers/{made['server']}")
        assert again["url"] != made["url"]
        assert ask(again["url"], "/ensemble")["server"] == 2
