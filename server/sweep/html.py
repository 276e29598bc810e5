"""The findings of a sweep as one HTML file, which plays the bad run and the good run step by step.

The file needs no server. The file contains no address, loads nothing and sends nothing. Clients choose paths
and data. So texts reach the page as JSON, and the page's script writes them as text, never as HTML.
"""

from __future__ import annotations

import json
from typing import Any, Final

_MOST: Final = 300
"""The largest number of steps that the page shows of one run. A run that hangs has many similar steps."""

_PAGE: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>Sweep</title>
<style>
body { font: 15px/1.4 system-ui, sans-serif; margin: 1.5em auto; max-width: 75em; padding: 0 1em; }
table { border-collapse: collapse; width: 100%; margin: .5em 0 1.5em; }
th, td { border: 1px solid #bbb; padding: .2em .5em; text-align: left; vertical-align: top; }
td { font-family: ui-monospace, monospace; font-size: 13px; overflow-wrap: anywhere; }
tr.later td { color: transparent; }
tr.deciding td { background: #fde2e0; }
tr.now td { outline: 2px solid #1a5fb4; outline-offset: -2px; }
button, select { font: inherit; padding: .2em .8em; }
code { background: #eee; padding: 0 .3em; }
</style>
<h1 id="title"></h1>
<p><label>Finding <select id="which"></select></label>
<button id="back">Step back</button> <button id="next">Next step</button> <button id="all">All steps</button>
<output id="where" aria-live="polite"></output></p>
<h2 id="failure"></h2>
<p>Replay: <code id="token"></code></p>
<table id="bad"></table>
<h2>The nearest run that passes</h2>
<table id="good"></table>
<script type="application/json" id="report">REPORT</script>
<script>
"use strict";
const report = JSON.parse(document.getElementById("report").textContent);
const byId = (id) => document.getElementById(id);
const of = (actor) => actor.replace(/[.^]+$/, "");
let finding, shown;
function add(parent, name, text) {
  const child = document.createElement(name);
  child.textContent = text;
  parent.append(child);
  return child;
}
function draw(table, steps) {
  table.replaceChildren();
  const clients = [...new Set(steps.map(([actor]) => of(actor)))].sort();
  const head = add(table, "tr", "");
  for (const name of ["step", ...clients]) add(head, "th", name).scope = "col";
  steps.forEach(([actor, text], at) => {
    const row = add(table, "tr", "");
    row.classList.toggle("deciding", at + 1 === finding.deciding);
    row.classList.toggle("later", at >= shown);
    row.classList.toggle("now", at === shown - 1);
    add(row, "td", at + 1);
    for (const client of clients) add(row, "td", client === of(actor) ? text : "");
  });
}
function show(count) {
  shown = Math.max(1, Math.min(count, finding.steps.length));
  byId("where").textContent = `step ${shown} of ${finding.steps.length}`;
  draw(byId("bad"), finding.steps);
  draw(byId("good"), finding.passing || []);
}
function choose(number) {
  finding = report.findings[number];
  byId("failure").textContent = `${finding.verdict}: ${finding.detail}`;
  byId("token").textContent = finding.token;
  show(finding.steps.length);
}
byId("title").textContent = `Sweep of ${report.scenario}`;
report.findings.forEach((each, number) => { add(byId("which"), "option", each.token).value = number; });
byId("which").onchange = (event) => choose(Number(event.target.value));
byId("back").onclick = () => show(shown - 1);
byId("next").onclick = () => show(shown + 1);
byId("all").onclick = () => show(finding.steps.length);
if (report.findings.length) choose(0);
</script>
</html>
"""


def page(report: dict[str, Any]) -> str:
    """Return the page of a report.

    :param report: what :meth:`.report.Report.as_dict` returns.
    """
    findings = [
        {**each, "steps": each["steps"][:_MOST], "passing": each["passing"] and each["passing"][:_MOST]}
        for each in report["findings"]
    ]
    data = json.dumps({"scenario": report["scenario"], "findings": findings})
    return _PAGE.replace("REPORT", data.replace("<", "\\u003c"))
