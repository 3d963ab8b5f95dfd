"""Citations of a bullet are read and rewritten in any form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.citations import CitedDocuments

pytestmark = pytest.mark.core

DOCUMENTS = CitedDocuments([(f"doc-{number}.txt", f"Pump {number} was repaired in May.") for number in range(1, 8)])
PIECES = st.sampled_from(
    ["[3]", "[2, 5]", "[3-6]", "[9-2]", "[doc-4]", "[doc-99]", "[", "]", "［３］", "[sic]", "Pump 4 ran.", ":", " "]
)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_any_bullet_is_read_and_a_repair_changes_citations_alone(bullet: str) -> None:
    [cited] = DOCUMENTS.cited([bullet])
    assert all(1 <= number <= 7 for number in cited.numbers)
    assert not any(1 <= number <= 7 for number in cited.out_of_range)
    [plain] = DOCUMENTS.plain([bullet])
    assert not DOCUMENTS.cited([plain])[0].numbers or "[" in plain.replace("[sic]", "")
    [again] = DOCUMENTS.apply_citations([bullet], [cited], [frozenset({2, 7})])
    assert {2, 7} <= set(DOCUMENTS.cited([again])[0].numbers)


def test_a_repaired_bullet_reads_as_its_writer_wrote_it() -> None:
    bullets = ["Pump 4 was repaired in May [1][2].", "Pump 2 was repaired in May. [doc-7]", "What was repaired:"]
    repaired = DOCUMENTS.recite(bullets)
    assert repaired[2] == bullets[2]
    assert repaired[0].startswith("Pump 4 was repaired in May [") and repaired[0].endswith("].") and "[4]" in repaired[0]
    assert "[2]" in repaired[1] and "doc-7" not in repaired[1]


def test_a_bullet_that_copies_its_source_gets_no_looser_one() -> None:
    copied = "Customer impact included the loss of power to the pumps and valves of the Velden plant."
    loose = "Customer impact was widespread at the Velden plant: pumps became slow, which affected valves."
    others = [
        f"Hall {number} of the museum shows {thing} until May." for number, thing in enumerate(("maps", "coins", "bells") * 4)
    ]
    corpus = CitedDocuments([(f"report-{number}.txt", text) for number, text in enumerate([copied, copied, loose, *others])])
    kept, own_words = corpus.recite([f"{copied} [1]", "At the Velden plant, customers saw pumps and valves lose power [1]."])
    assert corpus.cited([kept])[0].numbers == (1, 2)
    assert corpus.cited([own_words])[0].numbers == (1, 2, 3)


def test_a_number_is_a_place_unless_the_answers_author_named_documents_by_it() -> None:
    documents = [(f"{name}.txt", f"Pump {name} was repaired in May.") for name in (1, 10, 2)]
    [of_a_run] = CitedDocuments(documents).cited(["Pump 10 was repaired in May [2]."])
    [of_a_file] = CitedDocuments(documents, numbers_may_be_ids=True).cited(["Pump 2 was repaired in May [2]."])
    assert (of_a_run.numbers, of_a_file.numbers) == ((2,), (3,))
