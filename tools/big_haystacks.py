"""Makes artificial haystacks in the released format, of any number and size, from a seed, for measuring memory."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

SYLLABLES = tuple(consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou")


def words_of(rng: random.Random, number: int = 4000) -> list[str]:
    """Return a vocabulary of words of two to four syllables."""
    return ["".join(rng.choices(SYLLABLES, k=rng.randint(2, 4))) for _ in range(number)]


def sentence(rng: random.Random, words: list[str], length: int) -> str:
    """Return a sentence of `length` words."""
    return " ".join(rng.choices(words, k=length)).capitalize() + "."


def haystack(seed: int, documents: int = 100, words: int = 750, subtopics: int = 9, insights: int = 6) -> dict[str, Any]:
    """Return one haystack as a released file, with `words` words per document, and each insight in six to ten documents."""
    rng = random.Random(seed)
    known = words_of(rng)
    said: list[list[tuple[str, str]]] = [[] for _ in range(documents)]
    themes = []
    for place in range(subtopics):
        listed = []
        for number in range(insights):
            insight = {"insight_id": f"s{place}_i{number}", "insight": sentence(rng, known, 18)}
            listed.append(insight)
            for document in rng.sample(range(documents), min(documents, rng.randint(6, 10))):
                said[document].append((insight["insight_id"], insight["insight"]))
        theme = " ".join(rng.choices(known, k=5))
        themes.append({"subtopic_id": f"s{place}", "subtopic": theme, "query": f"What is said of {theme}?", "insights": listed})
    written = []
    for number, statements in enumerate(said):
        lines = [text for _, text in statements]
        while sum(len(line.split()) for line in lines) < words:
            lines.append(sentence(rng, known, rng.randint(8, 24)))
        rng.shuffle(lines)
        included = [insight_id for insight_id, _ in statements]
        written.append({"document_id": f"d{number}", "document_text": " ".join(lines), "insights_included": included})
    return {"topic_id": f"made-{seed}", "topic": " ".join(rng.choices(known, k=6)), "subtopics": themes, "documents": written}


def write_haystacks(folder: Path, number: int, seed: int = 1, **size: int) -> list[Path]:
    """Write `number` haystacks as files in `folder`; existing files are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"made_{seed}_{place:04d}.json" for place in range(number)]
    for place, path in enumerate(paths):
        if not path.exists():
            path.write_text(json.dumps(haystack(seed * 1_000_003 + place, **size)), encoding="ascii")
    return paths
