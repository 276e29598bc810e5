"""The sample of sentences that docs/sentences.txt keeps, and how sentences are drawn."""

import re

from tests.docs import sentences

KEPT = sentences.ROOT / "docs" / "sentences.txt"


def test_the_kept_sample() -> None:
    """The verdicts are those of a reader; that they are at most 6 is an aim, not checked here."""
    text = KEPT.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(lines) == 200
    for line in lines:
        assert re.fullmatch(r"(ok|twice \(.+\)) \| [\w./-]+: .+", line), line
    told = re.search(r"^# Marked: (\d+) of 200\.", text, re.MULTILINE)
    assert told is not None
    assert int(told[1]) == sum(line.startswith("twice") for line in lines)


def test_sentences_are_drawn_by_the_seed() -> None:
    assert sentences.draw("a", 20) == sentences.draw("a", 20)
    assert sentences.draw("a", 20) != sentences.draw("b", 20)


def test_what_is_a_sentence() -> None:
    text = (
        "# Headings have five words too\n\nOne sentence of five words. Another one with [some link](x.md).\n"
    )
    assert list(sentences.of_markdown(f"{text}\n```\nsome code is no sentence\n```\n")) == [
        "Headings have five words too",
        "One sentence of five words.",
        "Another one with some link.",
    ]
