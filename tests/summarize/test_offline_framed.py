"""The key-free models that read a context under `### Context:`: names, numbers, orders, matches, summaries of sections."""

from __future__ import annotations

import pytest

from summhay_ray.llm import LocalModel, Request
from summhay_ray.summarize import local_models

pytestmark = pytest.mark.core

PILL = "Does a pill lower the blood pressure of patients?"


def asked(model: str, context: str, instruction: str, more: str = "") -> str:
    made: LocalModel = local_models()[f"offline/{model}"]()
    frame = (
        f"### Context:\n{context}\n\nNow, respond to the instruction below.\n\n### Instruction:\n{instruction}{more}\n\nAnswer:"
    )
    return made.answer(Request(f"offline/{model}", frame))


@pytest.mark.parametrize(
    ("instruction", "context", "answer"),
    [
        ("Name every character", 'He met Captain Ines. "Stay here," said Otto. The Alps rose. In March Otto left.', "Ines, Otto"),
        ("Name every speaker of the talk", "Ada: We begin.\nMr. Bo Ek: Yes: now.\nAda: Good.", "Ada, Bo, Ek"),
        (
            "Find every whole number of people",
            "Twelve nurses saw 1,340 adult patients (n = 7); 15% left, twenty-one men",
            "12; 1340; 7; 21",
        ),
        (
            "Find every number of a cited source",
            "Roe v. Wade, 410 U.S. 113 (1973), 42 U.S.C. § 1983, No. 12-345; page 8",
            "410; 113; 42; 1983; 12; 345",
        ),
        ("Name every character", "nobody is here.", "None"),
        ("Answer for <Section 2> alone: name every character", "<Section 1>\nsaid Ann\n<Section 2>\nsaid Bea", "Bea"),
    ],
)
def test_names_and_numbers_by_what_is_asked_for(instruction: str, context: str, answer: str) -> None:
    assert asked("names", context, instruction) == answer


def test_options_stand_where_their_words_do() -> None:
    parts = ["The bakery opened early on Monday.", "A heron stood beside the canal.", "Nobody found the brass key again."]
    context = "\n\n".join(" ".join([part] * 8) for part in parts)
    options = "\n\n### Options:\n[1] The brass key was never found.\n[2] A bakery opens.\n[3] A heron by the canal."
    assert asked("order", context, "Put them in order.", options) == "[2], [3], [1]"


def test_documents_near_the_background_are_core_and_far_ones_are_not() -> None:
    context = (
        "[101]\nThe new pill lowers blood pressure in older patients.\n\n[202]\nThe bakery sells rye bread on Monday mornings."
    )
    background = f"\n\n### Background:\n{PILL}\n\nPut them into one:\n- Core IDs:\n- Supplementary IDs:"
    assert asked("match", context, "Decide.", background) == "- Core IDs: [101]\n- Supplementary IDs: [202]"
    other = background.replace(PILL, "How do glaciers move?")
    assert asked("match", context, "Decide.", other) == "- Core IDs: \n- Supplementary IDs: [101], [202]"


def test_each_section_gets_a_summary_below_its_header() -> None:
    parts = ["The ferry was late again on Monday. It rained.", "The mayor bought a red bicycle for the clerk."]
    context = "<Section 1>\n{}\n\n<Section 2>\n{}".format(*parts)
    said = asked("support", context, "Summarize each section.")
    assert (
        said == "<Section 1>\nThe ferry was late again on Monday.\n\n<Section 2>\nThe mayor bought a red bicycle for the clerk."
    )


@pytest.mark.parametrize("model", ["names", "order", "match"])
def test_another_prompt_has_no_answer(model: str) -> None:
    with pytest.raises(LookupError, match="### "):
        local_models()[f"offline/{model}"]().answer(Request("m", "Say hello."))
