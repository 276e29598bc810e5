"""A web page must not reach the server, nor another machine without the token."""

from __future__ import annotations

import pytest

from pyzk.server.control.guard import check_control, check_page
from pyzk.server.control.routes import ApiError
from pyzk.server.net.http import Request

LOOPBACK = ("127.0.0.1", "::1")


def request(**headers: str) -> Request:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request("GET", "/api/v1/sessions", {"host": "127.0.0.1:2181", **given})


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": "localhost:2181"},
        {"host": "[::1]:2181"},
        {"host": "127.0.0.2"},
        {"origin": "http://127.0.0.1:2181"},
        {"host": "localhost:2181", "referer": "http://localhost:2181/page", "sec_fetch_site": "same-origin"},
        {"user_agent": "Mozilla/5.0", "sec_fetch_site": "none"},
        {"user_agent": "curl/8"},
    ],
)
def test_one_who_is_at_this_machine_is_let_in(headers: dict[str, str]) -> None:
    check_page(request(**headers), LOOPBACK)


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "evil.example:2181"},
        {"host": "127.0.0.1.evil.example"},
        {"host": "localhost.evil.example"},
        {"host": "192.0.2.1:2181"},
        {"host": "0.0.0.0:2181"},
        {"host": ""},
        {"host": "[::ffff:192.0.2.1]"},
        {"host": "localhost@evil.example"},
        {"host": "[bad"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:8080"},
        {"origin": "https://127.0.0.1:2181.evil.example"},
        {"origin": ""},
        {"referer": "http://evil.example/127.0.0.1:2181"},
        {"referer": "http://localhost:2181/"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors"},
        {"user_agent": "Mozilla/5.0"},
        {"origin": "http://127.0.0.1:2181", "sec_fetch_site": "cross-site"},
    ],
)
def test_a_web_page_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(ApiError) as refusal:
        check_page(request(**headers), LOOPBACK)
    assert refusal.value.status == 403


LINK = {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


def test_a_window_may_follow_a_link_from_another_port_to_the_page_alone() -> None:
    def follow(target: str = "/", method: str = "GET", **changes: str) -> None:
        headers = {"host": "127.0.0.1:2181", "user-agent": "Mozilla/5.0", **LINK}
        headers |= {name.replace("_", "-"): value for name, value in changes.items()}
        check_page(Request(method, target, headers), LOOPBACK)

    follow()
    follow("/", host="localhost:2181")
    for target in ("/api/v1/server", "/page/main.js", "/metrics"):
        with pytest.raises(ApiError):
            follow(target)
    for changes in (
        {"method": "POST"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_dest": "iframe"},
        {"sec_fetch_mode": "no-cors"},
        {"host": "evil.example:2181"},
        {"referer": "http://evil.example/"},
        {"origin": "http://127.0.0.1:8080"},
    ):
        with pytest.raises(ApiError):
            follow(**changes)


def test_a_server_for_other_machines_is_named_by_its_address() -> None:
    check_page(request(host="192.0.2.1:2181"), ("0.0.0.0",))
    with pytest.raises(ApiError):
        check_page(request(host="evil.example"), ("0.0.0.0",))


def test_control_is_on_by_itself_on_loopback_alone() -> None:
    check_control(request(), LOOPBACK, None)
    for hosts in (("0.0.0.0",), ("127.0.0.1", "192.0.2.1"), ("::",)):
        with pytest.raises(ApiError, match=r"control\.token") as refusal:
            check_control(request(), hosts, None)
        assert refusal.value.status == 403


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer wrong", "Basic secret", "secret", "Bearer sécret"])
def test_a_wrong_token_is_refused(given: str) -> None:
    with pytest.raises(ApiError) as refusal:
        check_control(request(authorization=given), ("0.0.0.0",), "secret")
    assert refusal.value.status == 401
    assert "secret" not in refusal.value.detail


def test_the_token_opens() -> None:
    check_control(request(authorization="Bearer secret"), ("0.0.0.0",), "secret")
    check_control(request(authorization="bearer  secret "), LOOPBACK, "secret")
