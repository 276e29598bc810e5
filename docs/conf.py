"""How Sphinx builds the documentation: ``sphinx-build -EWq --keep-going docs build/docs``.

Rules:

* Each page is a Markdown file in this folder, which reads well in a file browser too. A link to another page,
  a heading or a file of the project is relative; the build fails when its target is missing.
* Each page belongs to one toctree of ``docs/index.md``. ``tests/test_site.py`` names pages that are in none.
* The output also holds each page as Markdown (``testing.md`` beside ``testing.html``, with included files
  filled in) and ``llms.txt``, the list of these files.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx.directives.code import LiteralIncludeReader
from sphinx.writers.text import TextTranslator

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))

from pyzk import __version__  # noqa: E402

project = "pyzk-server"
author = "The authors of pyzk-server"
version = release = __version__
description = (
    "An in-memory server for development and tests that speaks the ZooKeeper protocol;"
    " a test kit, a client, recipes."
)

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_design"]
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4  # the anchors that GitHub makes of headings; links to them are checked
suppress_warnings = ["misc.highlighting_failure"]  # examples of output are shortened with "..."

autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_typehints = "description"
autodoc_preserve_defaults = True

html_theme = "furo"
html_title = f"pyzk-server {release}"
html_copy_source = False  # the Markdown is there under the page's own name
html_theme_options = {"source_directory": "docs/"}

_INCLUDED = re.compile(r"^```\{literalinclude\} (?P<path>\S+)\n(?P<options>(?::.*\n)*)```$", re.MULTILINE)
_DOCSTRING_CODE = re.compile(r"\n\n(?P<code>(?: {4}.*\n)(?: {4}.*\n|\n(?= {4}))*)")
_API = re.compile(r"^```\{api\} (?P<module>[\w.]+)\n(?P<names>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK_OUT = re.compile(r"\[(?P<text>[^\]\n]*)\]\((?P<path>\.\./[^)\s]*)\)")


def fill_in(text: str, folder: Path, config: Config) -> str:
    """The page with the text of the files that it includes."""

    def block(found: re.Match[str]) -> str:
        options: dict[str, Any] = dict(re.findall(r"^:([\w-]+): *(.*)$", found["options"], re.MULTILINE))
        if "dedent" in options:
            options["dedent"] = int(options["dedent"])
        if "start-at" in options:
            options["start-at"] = options["start-at"].strip('"')
        code, _ = LiteralIncludeReader(str(folder / found["path"]), options, config).read()
        return f"```{options.get('language', '')}\n{code.rstrip()}\n```"

    return _INCLUDED.sub(block, text)


def link_out(app: Sphinx, docname: str, source: list[str]) -> None:
    """Make links to Markdown files outside this folder downloads, and links to folders plain text."""
    folder = Path(app.env.doc2path(docname)).parent

    def link(found: re.Match[str]) -> str:
        path = (folder / found["path"]).resolve()
        if path.is_relative_to(DOCS) or not path.exists():
            return found[0]
        if path.is_dir():
            return found["text"]
        return f"{{download}}`{found['text']} <{found['path']}>`" if path.suffix == ".md" else found[0]

    source[0] = _LINK_OUT.sub(link, source[0])


def list_api(app: Sphinx, docname: str, source: list[str]) -> None:
    """Make the names in a block ``{api} module`` directives of autodoc."""

    def directive(module: str, name: str) -> str:
        thing = getattr(import_module(module), name)
        kind = "function" if not isinstance(thing, type) else "class"
        kind = "exception" if kind == "class" and issubclass(thing, BaseException) else kind
        return f".. auto{kind}:: {module}.{name}\n"

    def block(found: re.Match[str]) -> str:
        directives = [directive(found["module"], name) for name in found["names"].split()]
        return f"```{{eval-rst}}\n{''.join(directives)}```"

    source[0] = _API.sub(block, source[0])


def mark_code(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Make the code in docstrings literal: it is indented by four, after a blank line."""
    text = "\n" + "\n".join(lines)
    lines[:] = _DOCSTRING_CODE.sub(r"\n\n::\n\n\g<code>\n", text)[1:].split("\n")


def title_of(text: str) -> str:
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    return found[1] if found else project


def write_markdown(app: Sphinx, failure: Exception | None) -> None:
    """Write each page as Markdown, and llms.txt (see https://llmstxt.org), into the output."""
    if failure is not None or app.builder.name != "html":
        return
    lines = [f"# {project} {release}", "", f"> {description}", ""]
    for name in sorted(app.env.found_docs):
        source = Path(app.env.doc2path(name))
        title = title_of(source.read_text(encoding="utf-8"))
        text = fill_in(source.read_text(encoding="utf-8"), source.parent, app.config)
        if "```{eval-rst}" in text or _API.search(text):
            writer = TextTranslator(app.env.get_doctree(name), app.builder)
            writer.document.walkabout(writer)
            text = f"# {title}\n\n{writer.body.partition(chr(10) * 2)[2]}"
        target = Path(app.outdir, f"{name}.md")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        lines.append(f"- [{title}]({name}.md)")
    Path(app.outdir, "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def setup(app: Sphinx) -> None:
    app.connect("source-read", link_out)
    app.connect("source-read", list_api)
    app.connect("autodoc-process-docstring", mark_code)
    app.connect("build-finished", write_markdown)
