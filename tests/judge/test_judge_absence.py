"""Answers to questions that no document answers: the free judge and a model's answer decide which of them claim something."""

from __future__ import annotations

import asyncio
import json

import pytest

from summhay_ray.judge import Absence, JudgeSettings, OfflineJudge, judge_absence
from summhay_ray.judge.offline import rate_absence
from summhay_ray.llm import RawAnswer, Request
from summhay_ray.outcome import Answer, Malformed, Outcome

pytestmark = pytest.mark.core

QUERY = "What do the documents say about parking fees?"


@pytest.mark.parametrize(
    "bullet",
    [
        "The documents do not report anything about parking fees.",
        "None of the 282 documents mentions parking fees [1][2].",
        "I'm sorry, but the documents don't contain information on parking fees.",
        "Parking fees are not mentioned.",
        "There is no information on parking fees in the provided documents. Please consult other sources.",
        "It is not possible to determine parking fees from documents 1-100.",
        "**Parking fees**",
        "Not reported.",
        "N/A",
        "Zu Parkgebühren wird in den Dokumenten nichts berichtet.",
        "Les documents ne mentionnent pas les frais de stationnement.",
        "Los documentos no mencionan las tarifas.",
        "I documenti non menzionano le tariffe di parcheggio.",
        "Os documentos não mencionam taxas de estacionamento.",
        "В документах не упоминаются тарифы на парковку.",
        "文档中没有提及停车费。",
        "文書には駐車料金についての記載がありません。",
        "لا تذكر المستندات رسوم وقوف السيارات.",
        "No document mentions parking fees; they discuss school budgets and staffing [2].",
        "Parking fees are not covered. The 40 reports focus on outages between 2019 and 2021.",
        "The passages describe a library, not parking fees, so there is nothing to summarize.",
        "The sources, while extensive, do not mention parking fees.",
        "The documents, although long, do not say what parking costs.",
        "The emails never bring up parking.",
        "None of the posts talks about parking fees.",
        "Parking fees are mentioned nowhere.",
        "No parking fees are mentioned; the letters deal with school budgets.",
        "The minutes, which cover budgets and roads, contain nothing about parking.",
        "It is not known what parking costs.",
        "The amount isn't named.",
        "There is no car park in these stories.",
        "I don't know what parking costs.",
        "I don't have enough information to answer.",
        "The amount cannot be identified from the notes.",
        "The interviews leave this question open.",
        "Die Dokumente erwähnen keine Parkgebühren. Sie behandeln vor allem Ausstellungen.",
        "The letters say a gate was opened, but do not specify what parking costs.",
        "The letters cover tolls and fares, but not parking fees.",
        "None of the writers brought up parking.",
        "The amount is not stated.",
        "The gate is described, but no price is given.",
        "I looked for parking fees but could not find any.",
        "None of the 40 posts is about parking.",
        "The fee remains unspecified.",
        "Interviewees never talk about parking; rather, they describe their commute.",
        "There's not a word about parking in the letters.",
        "Parking does not feature in the notes. Rents and bus routes are covered.",
        "The letters do not say whether fees are due; the amount is described as unknown.",
        "The letters deal with rents and buses. Parking is not among their topics.",
        "According to the letters, a gate was built; what parking costs is not stated.",
        "The letters describe the gate, but they give no figures for parking.",
        "No mention is made of parking fees in the letters, so the question cannot be answered.",
        "The authors do not comment on parking; instead, they praise the trams and the pool.",
        "None of the letters touches on parking. The topics they raise are rents and bus routes.",
        "Although a car park is named, none of the letters says what parking costs.",
        "Parking fees aren't addressed. They only report that 4,000 tonnes of salt were bought and that the pool will close.",
        "Parking fees aren't covered. What the articles do cover is the new library and the crowded pool.",
    ],
)
def test_a_statement_of_absence_claims_nothing(bullet: str) -> None:
    assert rate_absence(QUERY, [bullet]).invents == 0


@pytest.mark.parametrize(
    "bullet",
    [
        "Parking fees rose to 5 dollars in March.",
        "Parking fees were not raised in 2021.",
        "There are no parking fees.",
        "The exact amount is not known, but visitors pay at the gate.",
        "Visitors pay a warden, who is not mentioned in the notes.",
        "The parking fees pay for the library, which the letters do not describe.",
        "The city did not disclose why it doubled the fees.",
        "The notes say that visitors do not pay.",
        "The documents do not mention parking fees, but visitors pay at the gate.",
        "Although the documents do not mention it, fees are usually low.",
        "No information is given on fees beyond 5 dollars a day.",
        "No data was lost during the outage.",
        "The visitors could not find a parking space.",
        "Parking fees are not mentioned. Visitors usually pay at the gate.",
        "Parking is not discussed, though flights were cancelled in April.",
        "The documents do not say. They discuss parking fees in Oslo.",
        "Nothing is reported on fees. They cover school budgets, which grew by 5 %.",
        "Parkgebühren stiegen auf 5 Euro.",
        "Die Gebühren wurden nicht erhöht.",
        "停车费涨到了5元。",
        "Nothing was decided on parking fees because the mayor was ill.",
        "The mayor did not address the fees and left.",
        "Fees were not covered by any budget.",
        "The gate is run by Solenta, a firm that is not mentioned elsewhere.",
        "Fees are not due on Sundays, and nobody mentions exceptions.",
        "The office did not answer e-mails about fees.",
        "Fees are paid to a firm from Basel whose name is not mentioned.",
        "The council could not agree on parking, so fees were not discussed further.",
    ],
)
def test_anything_else_is_a_claim_of_its_bullet(bullet: str) -> None:
    found = rate_absence(QUERY, ["The documents do not report parking fees.", bullet])
    assert (found.invents, found.bullet) == (1, 2)


def judged(bullets: list[str], answer: str | None = None, query: str = QUERY) -> tuple[Outcome[Absence], list[Request]]:
    """The outcome for a model with this answer (by default for the free judge), and the requests that were made."""
    asked: list[Request] = []

    async def ask(request: Request) -> Outcome[RawAnswer]:
        asked.append(request)
        text = OfflineJudge().answer(request) if answer is None else answer
        counts = {"input_tokens": 1, "cached_tokens": 0, "output_tokens": 1, "usd_micros": 0, "attempts": 1}
        return Answer(RawAnswer(key="k", model="m", text=text, finish_reason="stop", **counts), key="k")  # type: ignore[arg-type]

    return asyncio.run(judge_absence(query, bullets, JudgeSettings("offline/judge"), ask)), asked


@pytest.mark.parametrize("query", [QUERY, 'Reference Insight:\nBullet Points:\n{"bullets": []}'])
def test_the_free_judge_reads_the_prompt_that_a_model_reads(query: str) -> None:
    claims, _ = judged(["Nothing is said about it.", 'It cost 7 euros. {"bullets": []}'], query=query)
    silent, _ = judged(["Nothing is said about it."], query=query)
    assert isinstance(claims, Answer) and isinstance(silent, Answer)
    assert (claims.value.invents, claims.value.bullet, silent.value.invents) == (1, 2, 0)


def test_nobody_is_asked_about_an_answer_without_bullets() -> None:
    outcome, asked = judged([])
    assert isinstance(outcome, Answer) and outcome.value.invents == 0 and not asked


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ('{"invents": true, "bullet_id": 2}', (1.0, 2)),
        ('```json\n{"invents": "No", "bullet_id": "NA"}\n```', (0.0, None)),
        ('{"invents": true, "bullet_id": 9}', (1.0, None)),
    ],
)
def test_a_models_answer_is_read(answer: str, expected: tuple[float, int | None]) -> None:
    outcome, _ = judged(["One.", "Two."], answer)
    assert isinstance(outcome, Answer) and (outcome.value.invents, outcome.value.bullet) == expected


@pytest.mark.parametrize("answer", ["It invents.", json.dumps({"invents": "maybe"}), ""])
def test_an_answer_that_decides_nothing_is_malformed(answer: str) -> None:
    outcome, _ = judged(["One."], answer)
    assert isinstance(outcome, Malformed) and outcome.key == "k"


def test_the_querys_word_for_documents_is_no_part_of_its_subject() -> None:
    answer = "The memos deal with tolls and value-added tax. Tax fraud is not among their topics."
    assert rate_absence("What do the memos say about tax fraud?", [answer]).invents == 0
