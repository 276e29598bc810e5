"""Every rule that the code, the tests and the documentation cite stands in docs/spec.

Three forms of citations are recognised:

* By document: ``wire.md section 4.2, step 4``, ``semantics.md 11, rule 10``, ``wire.md, traps 1 and 27``,
  ``recipe-rules.md D.2 step 3``.
* ``section 4.2`` or ``trap 17`` alone, in a file that cites documents: one of these must have it.
* The labels of recipe-rules.md alone: ``E-58``, ``I-9``, ``S3-a``, ``D.13``; in the tests of recipes
  also ``F14``.
* The marks of tests: ``@pytest.mark.row("F14", "E-58")``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).parents[1]
SPEC = ROOT / "docs" / "spec"
RECIPE_RULES = "recipe-rules"

# --- what there is -----------------------------------------------------------------------------------------

_HEADING = re.compile(r"#+ (?P<label>[A-E]\b(?:\.\d+)*|\d+(?:\.\d+)*)\.? (?P<title>.*)")
_ITEM = re.compile(r" *(?P<number>\d+)\. |\| (?P<row>\d+) \|")
_LABELLED = re.compile(r"(?:\| |- |\*\*)?(?P<label>E-\d+|F\d+|I-\d+|S\d-[a-z]|\d+\.\d+)\b")


def labels_of(text: str) -> set[str]:
    """What can be cited of a document: ``"4.2"`` for a section or a row with a label, ``"4.2 3"`` for item 3
    of section 4.2, ``"trap 3"`` for item 3 of the section named Traps."""
    labels, section, title = set(), "", ""
    for line in text.splitlines():
        if heading := _HEADING.match(line):
            section, title = heading["label"], heading["title"]
            labels.add(section)
        elif item := _ITEM.match(line):
            number = item["number"] or item["row"]
            labels.add(f"{section} {number}")
            if title == "Traps":
                labels.add(f"trap {number}")
        elif labelled := _LABELLED.match(line):
            labels.add(labelled["label"])
    return labels


DOCUMENTS = {path.stem: labels_of(path.read_text()) for path in sorted(SPEC.glob("*.md"))}


def exists(document: str, label: str) -> bool:
    """Whether a document has it. ``D.1.7`` is a section, or item 7 of section D.1."""
    labels = DOCUMENTS.get(document, set())
    parent, _, item = label.rpartition(".")
    return label in labels or (label[0] in "ABDE" and f"{parent} {item}" in labels)


# --- what is cited -----------------------------------------------------------------------------------------


@attrs.frozen
class Citation:
    file: str
    line: int
    document: str
    label: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.document}.md {self.label}"


_SPACE = r"(?: *\n *(?:#:? )?| )"  # the next line may begin with the sign of a comment
_LABEL = r"(?P<label>[A-E](?:\.\d+)*|E-\d+|F\d+|I-\d+|S\d-[a-z]|\d+(?:\.\d+)*)(?![\w-]|\.\d)"
_DOCUMENT = re.compile(r"(?<![\w/-])(?P<name>[a-z]+(?:-[a-z]+)*)\.md\b")
_REFERENCE = re.compile(
    rf"(?P<between>[,;]?{_SPACE}(?:(?:and|to|or){_SPACE})?)"
    rf"(?:(?P<kind>section|trap|rule|step|check|row)s?{_SPACE})?{_LABEL}"
)
_ALONE = re.compile(r"\b(?P<kind>section|trap)s? (?P<label>\d+(?:\.\d+)*)(?![\w-]|\.\d)")
_RECIPE_LABEL = re.compile(r"(?<![\w.-])(?:E-\d\d|I-\d+|S\d-[a-z]|[ABD]\.\d+(?:\.\d+)*)(?![\w-]|\.\d)")
_FAULT = re.compile(r"(?<![\w.-])F\d+(?!\w)")
_MARK = re.compile(r"\bmark\.row\((?P<labels>[^)]*)\)")


def by_document(text: str) -> Iterator[tuple[int, int, str, str]]:
    """Where each citation stands in the text, from and to, of which document, and what."""
    for found in _DOCUMENT.finditer(text):
        at, kind, section = found.end(), "section", ""
        while reference := _REFERENCE.match(text, at):
            if section and not (reference["kind"] or reference["between"].strip()):
                break  # "section 10 3": no citation goes on without a comma or a word
            kind, label = reference["kind"] or kind, reference["label"]
            if kind == "section" or not label[0].isdigit():
                kind, section = "section", label
                yield at, reference.end(), found["name"], label
            elif kind == "trap":
                yield at, reference.end(), found["name"], f"trap {label}"
            else:
                yield at, reference.end(), found["name"], f"{section} {label}"
            section, at = section or "-", reference.end()


def recipe_labels(text: str, with_faults: bool) -> Iterator[tuple[int, str]]:
    for found in _RECIPE_LABEL.finditer(text):
        yield found.start(), found[0]
    if with_faults:
        for found in _FAULT.finditer(text):
            yield found.start(), found[0]
    for found in _MARK.finditer(text):
        for label in re.findall(r'"([^"]*)"', found["labels"]):
            yield found.start(), label


def pages(*suffixes: str) -> list[Path]:
    """The files of the project with these suffixes; not those of virtual environments and builds."""
    return [
        path
        for path in sorted(ROOT.rglob("*"))
        if path.suffix in suffixes
        and not any(part == "build" or part.startswith(".") for part in path.relative_to(ROOT).parts)
    ]


def citations() -> tuple[list[Citation], list[Citation]]:
    """The citations by document, and what is cited without one."""
    cited: list[Citation] = []
    alone: list[Citation] = []
    for path in pages(".py", ".md"):
        if path == Path(__file__):
            continue
        text, file = path.read_text(), path.relative_to(ROOT).as_posix()
        documents = {path.stem} if path.parent == SPEC else set()
        seen: set[int] = set()

        def found(document: str, label: str, at: int, text: str = text, file: str = file) -> Citation:
            return Citation(file, text.count("\n", 0, at) + 1, document, label)

        for start, end, document, label in by_document(text):
            documents.add(document)
            seen.update(range(start, end))
            cited.append(found(document, label, start))
        for match in _ALONE.finditer(text):
            if documents and match.start() not in seen:
                label = f"trap {match['label']}" if match["kind"] == "trap" else match["label"]
                having = [name for name in sorted(documents) if exists(name, label)]
                alone.append(found(having[0] if having else " or ".join(documents), label, match.start()))
        of_recipes = file.startswith(("tests/recipes/", f"docs/spec/{RECIPE_RULES}"))
        for start, label in recipe_labels(text, with_faults=of_recipes):
            if start not in seen:
                alone.append(found(RECIPE_RULES, label, start))
    return cited, alone


# --- the tests ---------------------------------------------------------------------------------------------


def test_what_is_cited_is_there() -> None:
    cited, alone = citations()
    broken = [citation for citation in (*cited, *alone) if not exists(citation.document, citation.label)]
    assert not broken, "\n".join(map(str, broken))
    for found, least in ((cited, 500), (alone, 250)):
        count = sum(not citation.file.startswith("docs/spec/") for citation in found)
        assert count >= least, "the patterns no longer see how citations are written"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("wire.md section 4.2, step 4", ["wire 4.2", "wire 4.2 4"]),
        ("wire.md, traps 1 and 27: the", ["wire trap 1", "wire trap 27"]),
        ("semantics.md 11, rule 10; wire.md section 10", ["semantics 11", "semantics 11 10", "wire 10"]),
        ("wire.md sections 1,\n# 5 to 7, 12).", ["wire 1", "wire 5", "wire 7", "wire 12"]),
        ("# wire.md section 10\n    3,", ["wire 10"]),
        (
            "recipe-rules.md 0.10, D.2 step 3).",
            ["recipe-rules 0.10", "recipe-rules D.2", "recipe-rules D.2 3"],
        ),
        ("recipe-rules.md D.1.9, trap E-16", ["recipe-rules D.1.9", "recipe-rules E-16"]),
        ("docs/wire.md section 1, wire.md is", []),
    ],
)
def test_the_forms_of_citations(text: str, expected: list[str]) -> None:
    assert [f"{document} {label}" for _, _, document, label in by_document(text)] == expected


@pytest.mark.parametrize(
    ("document", "label"),
    [("wire", "20"), ("wire", "4.2 8"), ("wire", "trap 31"), ("recipe-rules", "E-64"), ("nothing", "1")],
)
def test_what_is_not_there_is_noticed(document: str, label: str) -> None:
    assert not exists(document, label)


def test_no_two_pages_have_the_same_title() -> None:
    titles = Counter(
        re.search(r"^# (.+)", path.read_text(), re.MULTILINE)[1].lower()  # type: ignore[index]
        for path in pages(".md")
    )
    assert [title for title, count in titles.items() if count > 1] == []
