"""Measures mining of folders of different sizes: processor seconds, memory, and the share of planted insights that are found.

    python tools/mine_speed.py 1000 3000 10000 [--folder DIR] [--executor inline]

Documents have about 700 words, made from a seed. Words follow Zipf's law, from vocabularies of the language, the topic and the
document. Insights are planted in 3 to 30 documents, with different wordings. There are also background statements, which recur in
the same words, and footers. Twice as many documents have twice as many insights and topics. An existing folder is used again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from big_haystacks import words_of

FUNCTION = re.findall(
    "[a-z]+", "the of and to in a is that for on with as by at from it was are be this which or an were has its"
)
FOOTERS = (
    "Read the full edition of this bulletin in the archive of the association, which opens every weekday.",
    "The editors of the bulletin correct what readers report within three days of the printed edition.",
    "This bulletin is printed on recycled paper by the association and posted to all members twice a month.",
)
WORDS, VOCABULARY, PER_TOPIC = 700, 20_000, 60
"""Words per document, words of the language, and documents per topic."""


class Corpus:
    """Documents, and the insights planted in them."""

    def __init__(self, documents: int, seed: int = 1) -> None:
        self._rng = rng = random.Random(seed)
        self._words = words_of(rng, VOCABULARY)
        self._zipf = list(itertools.accumulate(1 / (rank + 20) for rank in range(VOCABULARY)))
        self._common = list(itertools.accumulate(1 / (rank + 2) for rank in range(len(FUNCTION))))
        topics = max(1, documents // PER_TOPIC)
        self._topics = [words_of(rng, 150) for _ in range(topics)]
        of = [rng.randrange(topics) for _ in range(documents)]
        members: dict[int, list[int]] = {}
        for document, topic in enumerate(of):
            members.setdefault(topic, []).append(document)
        statements: list[list[str]] = [[] for _ in range(documents)]
        self.planted: list[tuple[str, set[int]]] = []
        """Each planted insight, with its documents."""
        for number in range(documents // 2):
            topic = rng.choice(of)
            holders = rng.sample(members[topic], min(len(members[topic]), 3 + min(27, int(rng.expovariate(0.2)))))
            # Two thirds are insights. The others are background: shorter, and always in the same words.
            size = rng.randint(12, 16) if number % 3 else rng.randint(5, 7)
            facts = [*self._content(size, topic, 0.4), *words_of(rng, 1), str(rng.randint(2, 5000))]
            rng.shuffle(facts)
            if number % 3:
                self.planted.append((self._sentence(facts), set(holders)))
            for document in holders:
                statements[document].append(self._reworded(facts, topic) if number % 3 else self._sentence(facts))
        self.texts = [self._document(statements[document], of[document]) for document in range(documents)]

    def _content(self, number: int, topic: int, share: float, own: Sequence[str] = ()) -> list[str]:
        """Return content words: of the topic (this share), of the document (a tenth), or of the language."""
        rng = self._rng
        found = rng.choices(self._words, cum_weights=self._zipf, k=number)
        for place in range(number):
            if (lot := rng.random()) < share:
                found[place] = rng.choice(self._topics[topic])
            elif own and lot > 0.9:
                found[place] = rng.choice(own)
        return found

    def _sentence(self, content: Iterable[str]) -> str:
        words = []
        for word in content:
            if self._rng.random() < 0.7:
                words += self._rng.choices(FUNCTION, cum_weights=self._common)
            words.append(word)
        return f"{words[0].capitalize()} {' '.join(words[1:])}."

    def _reworded(self, facts: Sequence[str], topic: int) -> str:
        """Return three quarters of the facts, mostly in order, with other words between them; in a third of the cases, as two
        sentences."""
        rng = self._rng
        kept = [fact for fact in facts if rng.random() < 0.75]
        for word in self._content(rng.randint(2, 5), topic, 0.2):
            kept.insert(rng.randint(0, len(kept)), word)
        half = len(kept) // 2
        return f"{self._sentence(kept[:half])} {self._sentence(kept[half:])}" if rng.random() < 0.33 else self._sentence(kept)

    def _document(self, statements: Sequence[str], topic: int) -> str:
        rng = self._rng
        own = words_of(rng, 12)
        lines = [*statements, *(footer for footer in FOOTERS if rng.random() < 0.3)]
        n_words = sum(len(line.split()) for line in lines)
        while n_words < WORDS:
            content = self._content(rng.randint(5, 16), topic, 0.15, own)
            if rng.random() < 0.2:
                content.append(str(rng.randint(1, 3000)))
            lines.append(self._sentence(content))
            n_words += len(lines[-1].split())
        rng.shuffle(lines)
        return "\n\n".join(" ".join(lines[place : place + 6]) for place in range(0, len(lines), 6))


def write(folder: Path, documents: int) -> list[tuple[str, set[int]]]:
    """Write the documents as `d00000.txt`, ... Return the planted insights."""
    listed = folder / "planted.json"
    if not listed.exists():
        corpus = Corpus(documents)
        (folder / "docs").mkdir(parents=True, exist_ok=True)
        for number, text in enumerate(corpus.texts):
            (folder / f"docs/d{number:05d}.txt").write_text(text, encoding="utf-8")
        listed.write_text(json.dumps([[text, sorted(holders)] for text, holders in corpus.planted]), encoding="utf-8")
    return [(text, set(holders)) for text, holders in json.loads(listed.read_text(encoding="utf-8"))]


def found(planted: Sequence[tuple[str, set[int]]], mined: Path) -> dict[str, float]:
    """Compare planted insights with mined ones.

    A mined insight matches a planted one if its documents have an F1 of at least 0.5. `found` is the share of planted insights
    with a match, and `f1` the mean F1. `precision` is the share with a match among the best mined insights; it counts as many of
    them as were planted.
    """
    made = json.loads(mined.read_text(encoding="utf-8"))
    ranks = {one["insight_id"]: one["rank"] for subtopic in made["subtopics"] for one in subtopic["insights"]}
    sizes: Counter[str] = Counter()
    held: dict[int, list[str]] = {}
    for document in made["documents"]:
        sizes.update(document["insights_included"])
        held[int(document["document_id"][1:6])] = document["insights_included"]
    total, good, hits = 0.0, 0, set[str]()
    for _, holders in planted:
        shared = Counter(one for document in holders for one in held.get(document, ()))
        pairs = {one: 2 * n / (len(holders) + sizes[one]) for one, n in shared.items()}
        total += max(pairs.values(), default=0.0)
        good += max(pairs.values(), default=0.0) >= 0.5
        hits |= {one for one, f1 in pairs.items() if f1 >= 0.5}
    first = sum(ranks[one] <= len(planted) for one in hits)
    n = len(planted)
    return {"mined": len(ranks), "found": good / n, "f1": total / n, "precision": first / n}


def measure(command: Sequence[str]) -> dict[str, float]:
    """Return the elapsed seconds, processor seconds, and largest process (MB) of a command."""
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # The operating system reports the maximum over all children so far, so sizes are measured from small to large.
    return {"s": time.perf_counter() - started, "cpu_s": cpu, "mb": after.ru_maxrss / 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("documents", type=int, nargs="*", default=[1000, 3000])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--executor", default="inline")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as own:
        for documents in sorted(given.documents):
            place = (given.folder or Path(own)) / str(documents)
            planted = write(place, documents)
            with tempfile.TemporaryDirectory() as store:
                out = Path(store) / "mine.json"
                command = [sys.executable, "-m", "summhay_ray.cli", "mine", str(place / "docs"), "--out", str(out)]
                figures = measure([*command, "--store", f"{store}/store", "--executor", given.executor])
                figures |= {"planted": len(planted), **found(planted, out)}
            print(documents, json.dumps({name: round(value, 3) for name, value in figures.items()}), flush=True)


if __name__ == "__main__":
    main()
