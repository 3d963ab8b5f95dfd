"""The choice of insights, their gold documents, and their queries."""

from __future__ import annotations

import re

import pytest

from summhay_ray.mine import Mining, Source, group_insights, mine

pytestmark = pytest.mark.core

_OWN = (
    "The harbour office planted new lime trees along the quay.",
    "A bakery opened near the old mill last spring.",
    "Children painted the wall behind the library in blue.",
    "The choir sang in the market hall on a rainy evening.",
    "Sabine found the missing ledger behind a cupboard.",
    "The ferry to the island carries bicycles for free.",
    "An owl has nested in the tower of the town hall.",
    "Marek repaired the fountain before the summer fair.",
)


_STAMPS = ("2024-03-01T10:15:00Z", "2024-04-02T11:45:00+02:00")


def _sources(*said: str) -> list[Source]:
    """Eight documents; the first ones make these statements, one each."""
    lines = [*said, *[""] * (len(_OWN) - len(said))]
    return [Source(f"{place}.txt", f"{own}\n\n{line}") for place, (own, line) in enumerate(zip(_OWN, lines, strict=True))]


@pytest.mark.parametrize(
    "line",
    [
        "Rod to ask the working groups of the foundation for regular reports on their plans",
        "Velden Ledger Archive Office Annual Meeting Minutes Of The Board",
        "and therefore the committee of the foundry could not agree on the",
        "please tell me whether the foundry can deliver your turbine blades in May",
        "stream: move the prefixed files of the turbine into the internal folder",
        "Is the foundry able to deliver the turbine blades before the audit in May?",
        "Planning for the audit of the turbine blades in the foundry of Velden",
        "Marta Velden and Rod Ilves to confirm the delivery of the turbine blades before the audit",
        "Marta will ask the foundry about the delivery of the turbine blades for Velden.",
        "About 300 workers of the foundry who will be attending the audit in Velden.",
        "No significant activity in the foundry of Velden since the audit of the turbine.",
        "Concerned about the fact that the foundry of Velden needs a new turbine.",
        "This was caused by a crack in the turbine blades of the foundry in Velden.",
        "This defect was found in the turbine blades of the foundry in Velden.",
        "However, such turbine blades are rare in the foundry of Velden.",
        "@rod: Prepare the foundry of Velden for the audit of the turbine blades.",
        "can we make it optional to audit the turbine blades of the foundry in Velden.",
        "Because of that, the turbine blades of the foundry in Velden are audited.",
        "The owners of these turbine blades asked the foundry in Velden for an audit.",
        "The audit went well without any interruption of the foundry.",
        "Drawn by Rod Ilves, last changed by the owners of the foundry in Velden on the way to an audit.",
        "A turbine that helps the workers of the foundry meet the rules of the audit in Velden.",
        "If it is full, we ask the foundry in Velden for an audit of the turbine blades.",
        "The foundry in Velden audits turbine blades as described below.",
        "While the furnace is cold, the corresponding turbine of the foundry in Velden stops.",
        "There was no regular audit meeting of the foundry in Velden in the spring.",
        "Marta provided a short turbine audit progress update to the foundry in Velden.",
        "Typos on the turbine drawings of the foundry in Velden fixed",
        "Turbine drawings of the foundry from last pages, where the audit in Velden gets busy",
        "But could be hard for the foundry of Velden to audit all of its turbine blades.",
        "Low priority, should be easy for the foundry of Velden to audit its turbine blades.",
        "We should ask the foundry in Velden for an audit of the turbine blades.",
        "Maybe the foundry of Velden audits the turbine blades before the summer.",
        "(The foundry of Velden is audited before the new turbine blades arrive)",
    ],
)
def test_what_is_no_statement_is_no_insight(line: str) -> None:
    assert mine(_sources(line, line, line, line), 3)[0] == []


@pytest.mark.parametrize(
    "line",
    [
        "The foundry, headquartered in Velden, Orbis county, audited the turbine blades after the flood.",
        "One of the oldest turbines, the Velden wheel, and its three new neighbours, illustrate the craft of the foundry.",
        "Initially supplying blades to the foundry in Velden, the turbine company rapidly grew by 1914.",
        "The turbine blades of the foundry in Velden are brittle in winter",
    ],
)
def test_a_statement_may_have_asides_and_lack_a_full_stop(line: str) -> None:
    assert [one.text for one in mine(_sources(line, line, line, line), 3)[0]] == [line]


@pytest.mark.parametrize(
    ("stated", "others"),
    [
        (
            "Payments in Frankfurt failed for two hours on 22 July 2021 because a certificate had expired.",
            "Payments in Frankfurt failed for nine hours on 22 July 2021 because a certificate had expired.",
        ),
        (
            "The conference takes place in Waterford on 6-8 November 2023 and tickets are on sale.",
            "The conference takes place in Waterford on 3-6 November 2024 and tickets are on sale.",
        ),
        (
            "Almost all instances and 58% of the volumes in the zone lost power in Dublin.",
            "Many instances and some of the volumes in the zone lost power in Tokyo.",
        ),
        (
            "The March invoice of Orbis is paid by the clearing office.",
            "The March invoice of Orbis is not paid by the clearing office.",
        ),
        (
            "A migration of the Velden mail server ended without errors.",
            "An upgrade of the Velden mail server ended without errors.",
        ),
        (
            "All turbines of the Velden foundry are impacted by the crack in the casing.",
            "All turbines of the Velden foundry are NOT vulnerable.",
        ),
        (
            "The release line of Orbis is vulnerable to one critical security defect and one minor security defect.",
            "The release line of Orbis is vulnerable to one critical security defect and two minor security defects.",
        ),
        (
            "The council rejected rule 582 (local packages of the archive office in Velden).",
            "The council discussed rule 582 (local packages of the archive office in Velden).",
        ),
        (
            "The ticket counter of the ferry office, run by the Velden harbour, is now closed.",
            "The ticket counter of the ferry office, run by the Velden harbour, will be closed for repairs.",
        ),
        (
            "Travellers reported an outage of tickets.velden.example on the ferry in the morning.",
            "Travellers reported an outage of harbour.velden.example on the ferry in the morning.",
        ),
        (
            "The folder tickets/cache of the Velden ferry office was skipped in the migration.",
            "The folder harbour/cache of the Velden ferry office was skipped in the migration.",
        ),
    ],
)
def test_a_document_with_other_numbers_dates_things_or_a_denial_is_no_gold(stated: str, others: str) -> None:
    mined, _ = mine(_sources(stated, others, stated, others, stated, others), 3)
    gold = {one.text: {evidence.document for evidence in one.evidence} for one in mined}
    assert gold[stated] == {0, 2, 4}


def test_two_documents_that_share_half_of_what_they_say_are_no_insight() -> None:
    stated = "The harbour master of Velden counted the barges on the quay before the winter storm reached the river."
    other = "The harbour master of Velden counted the cranes and sold the wharf after a dispute with the river office."
    assert mine(_sources(stated, other), 2)[0] == []
    assert [one.text for one in mine(_sources(stated, stated), 2)[0]] == [stated]


def test_another_machine_is_no_gold_though_its_name_shares_all_numbers() -> None:
    stated = "The node k8s-pool1-1952-9 was cordoned by Rod."
    other = "Rod saw that k8s-pool2-1952-9 was slow, like pool1, and the node was cordoned."
    assert mine(_sources(stated, other), 2)[0] == []


def test_a_thing_that_is_named_is_not_down() -> None:
    stated = "The ticket counter of the old ferry office in Velden is down."
    others = [
        f"The ticket counter of the old ferry office in Velden {what}." for what in ("sells maps", "keeps stamps", "takes cards")
    ]
    mined, _ = mine(_sources(stated, stated, stated, *others), 3)
    assert [{evidence.document for evidence in one.evidence} for one in mined] == [{0, 1, 2}]


def test_equal_numbers_need_less_in_common_where_little_recurs() -> None:
    stated = "For about 45 minutes after the fire, the office sold 460 tickets without a printed date."
    worded = "Nobody saw it at once: the office went on and sold 460 tickets in the 45 minutes after the fire, without a date."
    others = [
        f"The {one} of district {one}{one} reported the {one} of its {one}s." for one in ("mill", "barge", "crane", "wharf")
    ]
    sources = [*_sources(stated, worded), *(Source(f"{one}.md", one) for one in others)]
    assert [{found.document for found in one.evidence} for one in mine(sources, 2)[0]] == [{0, 1}]
    unnumbered = [re.sub("about 45 minutes|the 45 minutes", "some time", re.sub("460 ", "", one)) for one in (stated, worded)]
    assert mine([*_sources(*unnumbered), *sources[len(_OWN) :]], 2)[0] == []


def test_a_label_in_brackets_is_no_part_of_an_insight() -> None:
    stated = "The clearing office in Velden paid the March invoice of Orbis after the audit."
    mined, _ = mine(_sources(f"[Update] {stated}", f"[Final message] {stated}", stated), 3)
    assert [one.text for one in mined] == [stated]


def test_another_version_in_the_sentence_is_no_gold_though_the_next_sentence_has_the_right_one() -> None:
    stated = "After the summer, the maintenance of Orbis 2.2 will be ended by the clearing office in Velden."
    other = "After the summer, the maintenance of Orbis 2.0 will be ended by the clearing office in Velden."
    other += " The harbour should plan its migration to Orbis 2.2 now."
    mined, _ = mine(_sources(stated, other, stated, other, stated), 3)
    gold = {one.text: {evidence.document for evidence in one.evidence} for one in mined}
    assert gold[stated] == {0, 2, 4}


def test_another_form_of_a_number_and_a_date_is_gold() -> None:
    stated = "Payments in Frankfurt failed for 2 hours on 22 July 2021 because a certificate had expired."
    worded = "On July 22nd, 2021, payments failed in Frankfurt for two hours, because a certificate had expired."
    mined, _ = mine(_sources(stated, worded, stated, worded), 3)
    assert {evidence.document for evidence in mined[0].evidence} == {0, 1, 2, 3}


def test_the_same_words_about_another_subject_are_no_gold() -> None:
    """Proposals repeat each other's sentences, with their own subject in them."""
    stated = "In the long term, there is a risk of fragmenting the ecosystem with many competing {} APIs."
    own = (
        "A {0} runs when its element is inserted.",
        "Each {0} has a manager that the framework calls.",
        "Authors register a {0} once.",
        "The {0} receives named arguments.",
        "Tests of a {0} need no browser.",
        "An element may have a {0} beside its {1}.",
    )
    pairs = (("component", "modifier"), ("modifier", "component"))
    said = {subject: "\n\n".join(line.format(subject, other) for line in (*own, stated)) for subject, other in pairs}
    others = [f"Letter {number} reached the office of district {number + 40} by post." for number in range(20)]
    texts = [f"{line}\n\n{text}" for line, text in zip(_OWN, 3 * [said["component"]] + 3 * [said["modifier"]], strict=False)]
    sources = [Source(f"{place}.txt", text) for place, text in enumerate([*texts, *others])]
    gold = {one.text: {evidence.document for evidence in one.evidence} for one in mine(sources, 3)[0]}
    assert gold[stated.format("component")] == {0, 1, 2} and gold[stated.format("modifier")] == {3, 4, 5}


def test_a_name_may_stand_anywhere_in_a_document() -> None:
    stated = "The long queue of unpaid invoices delayed the audit of Orbis by the clearing office in Velden until autumn."
    worded = "The audit was delayed by the clearing office until autumn, because of a long queue of unpaid invoices."
    between = "\n\n".join(f"Letter {number} arrived by post on a rainy day." for number in range(4))
    apart = f"Orbis has an office in Velden.\n\n{between}\n\n{worded}"
    mined, _ = mine(_sources(stated, stated, stated, apart, worded), 3)
    assert {evidence.document for evidence in mined[0].evidence} == {0, 1, 2, 3}


def test_another_time_stamp_makes_another_insight_and_no_opposite() -> None:
    lines = [f"{stamp} The backup of the payroll server of Velden finished without errors." for stamp in _STAMPS]
    mined, _ = mine(_sources(lines[0], lines[1], lines[0], lines[1], lines[0], lines[1]), 3)
    assert {one.text: {evidence.document for evidence in one.evidence} for one in mined} == {
        lines[0]: {0, 2, 4},
        lines[1]: {1, 3, 5},
    }
    assert not any(one.opposites for one in mined)


def test_another_number_is_an_opposite_and_another_time_is_none() -> None:
    later = "The backup of the payroll server failed at 4:45 because the disk was full."
    more = ("The vault of the Velden bank holds 300 gold bars.", "The vault of the Velden bank holds 900 gold bars.")
    said = ("The backup of the payroll server failed at 2:30 because the disk was full.", later, *more)
    sources = [
        Source(f"{place}-{copy}", f"{_OWN[2 * copy + place % 2]}\n\n{line}")
        for place, line in enumerate(said)
        for copy in range(3)
    ]
    mined, _ = mine(sources, 3)
    opposites = {one.text: {mined[other].text for other in one.opposites} for one in mined}
    assert opposites == {said[0]: set(), said[1]: set(), more[0]: {more[1]}, more[1]: {more[0]}}


def test_two_documents_suffice_where_few_insights_are_in_three() -> None:
    stated = "Payments in Frankfurt failed for two hours on 22 July 2021 because a certificate had expired."
    sources = _sources(stated, f"{stated} Nobody noticed.")
    mining = Mining(sources, None)
    assert [len(one.evidence) for one in mining.mined()] == [2] and mining.relaxed
    assert mine(sources, 3)[0] == []


def test_questions_name_what_the_insights_share_and_when() -> None:
    insights = [
        "Card payments in Frankfurt failed for two hours on 22 July 2021 because a certificate of the gateway expired.",
        "Payments failed in Frankfurt in July 2021 after 58 percent of the gateway's nodes lost power.",
        "The backup of the payroll server runs at 2:30 every night.",
        "The payroll server was moved to hall 5 by the vendor.",
        "Badge readers at the Velden gate reject cards that were issued before May 2019.",
    ]
    asked = {group.query: {insights[place] for place in group.places} for group in group_insights(insights, "tickets")}
    assert asked["Why did payments fail in Frankfurt in July 2021?"] == set(insights[:2])
    assert insights[3] in next(said for query, said in asked.items() if "payroll server" in query)
    assert sum(map(len, asked.values())) == len(insights)


@pytest.mark.parametrize(
    ("statement", "query"),
    [
        (
            "The pharmacy of Harlow clinic ran out of amoxicillin on 3 March 2024 because a delivery was cancelled.",
            "Why did the pharmacy of Harlow clinic run out of amoxicillin in March 2024?",
        ),
        (
            "On March 13, 2018, the Velden portal was unavailable for around 5.5 hours, and its backlog lasted until noon.",
            "How long was the Velden portal unavailable in March 2018?",
        ),
        ("All affected badges were revoked by 14:22 on May 14.", "When were all affected badges revoked?"),
        (
            "The Corvane agent suffered a failure of the module for distributed tasks, which had no spare.",
            "What did the Corvane agent suffer?",
        ),
        (
            "Waiting times in the emergency room fell from 94 to 61 minutes when a second desk opened.",
            "By how much did waiting times in the emergency room fall?",
        ),
        (
            "We don't think the possible performance pitfalls pose a large enough risk in practice to negate any benefits.",
            "What is known about the possible performance pitfalls?",
        ),
        (
            "The Velden council discussed PEP 467 at length and gave feedback to its author.",
            "What did the Velden council discuss?",
        ),
        ("We discussed PEP 467 at length and gave feedback to its author.", "What is known about PEP 467?"),
        ("Matteo Rossi: we decided to ship the permission model.", "What was decided about the permission model?"),
        ("The number of replicas was raised from 3 to 5.", "How did the number of replicas change?"),
        ("The deadline for applications is 3 May 2024.", "When is the deadline for applications?"),
        (
            "Instead of the usual batches, the new routing table was pushed to most regions within an hour.",
            "What happened to the new routing table?",
        ),
        ("Stale leases can lead to data loss.", "What can stale leases lead to?"),
        ("It stops if the disk of the leader is full.", "What happens if the disk of the leader is full?"),
        ("A lease can be passed to the follower using the snapshot protocol.", "How can a lease be passed to the follower?"),
        ("The Velden relay is vulnerable to forged leases.", "What is the Velden relay vulnerable to?"),
        ("The lease parser was repaired in version 7.51.0.", "In which version was the lease parser repaired?"),
        ("The snapshot log can only be opened when the relay is idle.", "When can the snapshot log be opened?"),
        ("Copying large snapshots can cause timeouts.", "What can copying large snapshots cause?"),
        ("POLL: We should merge the two lease formats.", "What is known about lease formats?"),
        ("Two more reasons are serial relays.", "What is known about serial relays?"),
    ],
)
def test_a_question_asks_for_the_content_of_its_statement(statement: str, query: str) -> None:
    assert group_insights([statement], "reports")[0].query == query


def test_a_shared_noun_or_acronym_makes_no_subtopic() -> None:
    insights = [
        "The intranet server of the Velden office was replaced in May.",
        "Every lab keeps a spare server behind the blue door.",
        "The API of the payroll vendor requires a signed token.",
        "Visitors can read opening hours through the museum's API.",
    ]
    assert [len(group.places) for group in group_insights(insights, "office")] == [1, 1, 1, 1]


def test_insights_of_the_same_few_documents_are_one_subtopic() -> None:
    outage = [
        "The Velden archive lost 40 boxes on 3 March 2024.",
        "A pipe above the reading room had been leaking for two days.",
        "Volunteers dried most letters with borrowed fans.",
    ]
    others = [f"The {thing} costs {number} euros a year." for number, thing in enumerate(("lift", "garden", "roof", "cafe"), 30)]
    documents = [[0, 1], [0, 1], [0, 1, 2], *([number, number + 1, number + 2] for number in range(3, 15, 3))]
    groups = group_insights([*outage, *others], "museum", documents)
    assert [len(group.places) for group in groups] == [3, 1, 1, 1, 1] and groups[0].places == (0, 1, 2)
    assert groups[0].query == "What went wrong with the Velden archive?"
    assert [len(group.places) for group in group_insights([*outage, *others], "museum")] == [1] * 7


def test_a_subtopic_has_at_most_eight_insights() -> None:
    insights = [f"The boiler of hall {number} was replaced after {number + 40} days." for number in range(50)]
    groups = group_insights(insights, "halls", [[2 * (number // 10), 2 * (number // 10) + 1] for number in range(50)])
    assert max(len(group.places) for group in groups) == 8 and sum(len(group.places) for group in groups) == 50


@pytest.mark.parametrize(
    "statement",
    [
        "Die Zahlungen in Frankfurt fielen am 22. Juli 2021 zwei Stunden lang aus, weil ein Zertifikat abgelaufen war.",
        "2021年7月22日、フランクフルトの決済は証明書の期限切れで二時間停止した。",
    ],
)
def test_a_question_about_another_language_quotes_a_word_of_it(statement: str) -> None:
    query = group_insights([statement], "folder")[0].query
    quoted = re.fullmatch("What is known about “(.+)”[?]", query)
    assert quoted and quoted[1] in statement


def test_a_question_names_what_the_documents_of_its_insights_repeat() -> None:
    insights = [
        "An assign-once property throws an exception on the second write attempt of a thread.",
        "Compilers report an assign-once property that lacks an explicit accessor type.",
    ]
    texts = [" ".join([*insights, *4 * ["An assign-once property is a property."]]), *_OWN]
    assert group_insights(insights, "proposals", [[0], [0]], texts)[0].query == "What is known about the assign-once property?"


def test_a_question_names_what_the_documents_are_about_where_its_insights_do_not() -> None:
    insights = ["Questions on the mailing list are answered within a day.", "The number of commits is lower than last year."]
    others = [f"The {thing} costs {number} euros a year." for number, thing in enumerate(("lift", "garden", "roof", "cafe"), 30)]
    texts = [" ".join([*insights, *6 * ["People like Velden, a relay."]]), *_OWN]
    groups = group_insights([*insights, *others], "reports", [[0], [0], [1], [2], [3], [4]], texts)
    assert groups[0].query == "What is known about Velden?"


def test_insights_that_answer_one_question_are_one_subtopic() -> None:
    insights = [
        "The Velden relay is vulnerable to forged leases.",
        "The harbour of Ilves was closed in May.",
        "The Velden relay is vulnerable to long names in the records of a snapshot.",
    ]
    groups = group_insights(insights, "notes", [[0, 1], [2, 3], [4, 5]])
    assert [group.places for group in groups if "Velden" in group.query] == [(0, 2)]


def test_every_subtopic_has_a_question_of_its_own() -> None:
    things = ("printer", "scanner", "turbine", "boiler", "pump", "valve", "crane")
    insights = [f"The {thing} in hall {number} was replaced after {number + 40} days." for thing in things for number in range(9)]
    groups = group_insights(insights, "halls")
    queries = [group.query for group in groups]
    assert len(set(queries)) == len(queries) and all(query.endswith("?") for query in queries)
    for group in groups:
        assert len({insights[place].split()[1] for place in group.places}) == 1


def test_two_insights_that_share_most_words_keep_their_own_documents() -> None:
    raised = "Velden raised the insured deposit limit beyond the usual 250,000 crowns to bolster confidence among its depositors."
    review = (
        "A committee may review the insured deposit limit beyond the usual 250,000 crowns to bolster depositors against panics."
    )
    mined, _ = mine(_sources(*4 * [raised], *4 * [review]), 3)
    assert {one.text: {found.document for found in one.evidence} for one in mined} == {
        raised: {0, 1, 2, 3},
        review: {4, 5, 6, 7},
    }


def test_a_name_alone_is_no_evidence_for_what_is_said_about_it() -> None:
    said = "The board asked Velden Harbour Relay Foundation for cheaper copper cables in every northern tunnel."
    other = "Visitors praised Velden Harbour Relay Foundation during a sunny picnic."
    mined, _ = mine(_sources(said, said, said, other), 3)
    assert [{found.document for found in one.evidence} for one in mined if one.text == said] == [{0, 1, 2}]
