"""German, French and Spanish in addition to English: words, sentences, rankings, ROUGE and extracts."""

from __future__ import annotations

import pytest

from summhay_ray import extract, retrieve
from summhay_ray.metrics import rouge
from summhay_ray.text import sentences

pytestmark = pytest.mark.core

TEXTS = {
    "English": (
        [
            "The bridge over the river opens in May.",
            "The ferry, which carried 300 people a day, stops.",
            "Mayor Brandt paid 1.5 million.",
        ],
        "When does the bridge over the river open?",
    ),
    "German": (
        [
            "Die Brücke über den Fluss öffnet im Mai.",
            "Die Fähre, die täglich 300 Menschen trug, hält an.",
            "Dr. Brandt zahlte 1,5 Millionen.",
        ],
        "Wann öffnet die Brücke über den Fluss?",
    ),
    "French": (
        [
            "Le pont sur la rivière ouvre en mai.",
            "Le bac, qui portait 300 personnes par jour, s'arrête.",
            "La maire Mme Brandt a payé 1,5 million.",
        ],
        "Quand ouvre le pont sur la rivière ?",
    ),
    "Spanish": (
        [
            "El puente sobre el río abre en mayo.",
            "El transbordador, que llevaba 300 personas al día, para.",
            "La alcaldesa Brandt pagó 1,5 millones.",
        ],
        "¿Cuándo abre el puente sobre el río?",
    ),
}


@pytest.mark.parametrize("language", TEXTS)
def test_a_european_language_is_read_like_english(language: str) -> None:
    told, query = TEXTS[language]
    text = " ".join(told)
    assert sentences(text) == told
    assert set(rouge(text, [text]).values()) == {1.0}
    half = rouge(told[0], [text])
    assert 0 < half["rouge1"] < 1
    corpus = retrieve.Corpus("c", ("a", "b", "c"), (told[1], told[0], told[2]), (retrieve.Query("q", query),))
    for name in ("bm25", "keywords"):
        [ranking] = retrieve.rankings(retrieve.make(name, 0), corpus)
        assert ranking[0].number == 2, name
    assert extract.cut_down(text, query, "rouge-1+2", 16) == told[0]
