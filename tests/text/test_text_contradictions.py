"""Contradictions between a statement and its evidence, and the same facts in other words."""

from __future__ import annotations

import datetime
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.text import find_contradictions

GOLD = "The Frankfurt payment outage on 22 July 2021 lasted two hours and hit 58% of customers."

CONTRADICTING = [
    (GOLD, "The Frankfurt payment outage on 5 March 2024 lasted two hours and hit 58% of customers.", "date"),
    (GOLD, "The Frankfurt payment outage on 22 July 2021 lasted nine hours and hit 58% of customers.", "number"),
    (GOLD, "The Frankfurt payment outage on 22 July 2021 lasted two hours and hit 12 percent of customers.", "number"),
    (GOLD, "The Tokyo payment outage on 22 July 2021 lasted two hours and hit 58% of customers.", "name"),
    (GOLD, "The Frankfurt payment outage on 22 July 2021 did not happen.", "denial"),
    (GOLD, "The Frankfurt payment outage hit no customers.", "denial"),
    (GOLD, "On 22 July 2021 payments failed in Frankfurt. The outage of payments lasted 9 h.", "number"),
    ("The committee met in July 2021.", "The committee met in August 2021.", "date"),
    ("It happened on 13/4/2021.", "It happened on 14 April 2021.", "date"),
    ("Recovery was completed on Tuesday, August 14, 2017.", "Recovery was completed on Tuesday, February 14, 2017.", "date"),
    ("The balancers were updated at 20:22.", "The balancers were updated at 08:22.", "time"),
    ("The budget grew by 1.5 billion euros.", "The budget grew by 1.5 million euros.", "amount"),
    ("The price is $5.", "The price is 5 euros.", "amount"),
    ("More than 20 people came.", "More than 900 people came.", "number"),
    ("The first phase ended.", "The second phase ended.", "number"),
    ("Third-quarter revenue rose to $9 million.", "Revenue rose to $9 million in the fourth quarter.", "number"),
    ("A third of customers left.", "Two thirds of customers left.", "number"),
    ("Half of the nurses plan to leave.", "A tenth of the nurses plan to leave.", "number"),
    ("The company hired 30 people and fired 10.", "The company hired 10 people and fired 30.", "number"),
    ("The team in Berlin shipped Windows 11.", "The team in Berlin shipped Windows 10.", "number"),
    ("Node.js v16 was released.", "Node.js v18 was released.", "name"),
    ("Ann Example chairs the meeting.", "Bob Sample chairs the meeting.", "name"),
    ("The team uses PostgreSQL for billing.", "The team uses MySQL for billing.", "name"),
    ("The board approved the merger.", "The board refused to approve the merger.", "denial"),
    ("The merger was never approved by the board.", "The board approved the merger.", "denial"),
    ("Engineers failed to restore the database.", "Engineers restored the database.", "denial"),
    ("The data was restored without data loss.", "The data was restored with data loss.", "denial"),
    ("The mayor denied that the bridge collapsed.", "The bridge collapsed.", "denial"),
    ("There was no outage in Frankfurt.", "The outage in Frankfurt lasted two hours.", "denial"),
    ("The team chose PostgreSQL.", "The team did not choose PostgreSQL.", "denial"),
    ("The council agreed to extend the lease.", "The council did not agree to extend the lease.", "denial"),
    ("Nobody was injured in the fire.", "Twelve people were injured in the fire.", "denial"),
    ("No one was hurt in the crash.", "Three people were hurt in the crash.", "denial"),
    ("The flight was cancelled because of fog.", "The flight was not cancelled.", "denial"),
    ("Prices rose.", "Prices fell.", "denial"),
    ("The motion passed.", "The motion failed.", "denial"),
    ("The proposal was accepted.", "The proposal was rejected.", "denial"),
    ("The working group meets weekly.", "The working group meets monthly.", "denial"),
    ("The patch is compatible with older versions.", "The patch is incompatible with older versions.", "denial"),
    ("The change is safe for production.", "The change is unsafe for production.", "denial"),
    ("Most users prefer the old design.", "Few users prefer the old design.", "denial"),
    ("Exports shrank by a third.", "Exports shrank by half.", "number"),
    ("Pfizer withdrew the drug from the market in 2004.", "Merck withdrew the drug from the market in 2004.", "name"),
    ("The freezer warmed to -12 degrees.", "The freezer warmed to 12 degrees.", "number"),
    ("The margin was -3.2 percent.", "The margin was 3.2 percent.", "number"),
    ("The temperature fell from 5 to minus 5 degrees.", "The temperature fell from 5 to minus 8 degrees.", "number"),
    ("Version 2.3 and earlier are affected.", "Version 2.1 and earlier are affected.", "number"),
    ("Cards issued after 1 March are valid.", "Cards issued after 2 March are valid.", "date"),
    ("The limit applies from version 3.0 onwards.", "The limit applies until version 3.0.", "denial"),
    ("The fire started in the kitchen.", "The fire started in the basement.", "name"),
    ("The line has two low severity bugs.", "The line has three low severity bugs and two high severity bugs.", "number"),
    ("Keep the flag org.relay.rfc3827 for a year.", "Keep the flag org.relay.rfc2285 for a year.", "name"),
    ("The account was opened by the user ada99.", "The account was opened by the user bob77.", "name"),
    ("Der Ausfall am 22. Juli 2021 dauerte 2 Stunden.", "Der Ausfall am 5. März 2024 dauerte 2 Stunden.", "date"),
    ("支付中断发生在2021年7月22日，持续了2小时。", "支付中断发生在2021年7月22日，持续了9小时。", "number"),
    ("Сбой 22 июля 2021 длился 2 часа.", "Сбой 22 июля 2021 длился 9 часов.", "number"),
    ("العطل في 22 يوليو 2021 استمر ساعتين", "العطل في 23 يوليو 2021 استمر ساعتين", "date"),
    ("The release fixes one medium severity issue.", "The release fixes two medium severity issues.", "number"),
    ("Every node was affected by the outage.", "Only one node was affected by the outage.", "denial"),
    ("Half of the traffic was dropped.", "All of the traffic was dropped.", "denial"),
    ("The council decided to keep the weekly call.", "The council decided to drop the weekly call.", "denial"),
    ("The new ward in Malmö will be run by Ingrid Dahl.", "Per Lindqvist will run the new ward in Malmö.", "name"),
    ("The ferry was towed to Piraeus for repairs.", "Tugs towed the ferry to Izmir, where repairs began.", "name"),
    ("The Aurora Bay ran aground on 14 March 2022.", "On 3 May 2022 the Aurora Bay ran aground near the light.", "date"),
    ("The upgrade requires a restart of the server.", "The upgrade does not require a restart of the server.", "denial"),
    ("Error rates went up after the rollout.", "After the rollout, error rates went down.", "denial"),
    ("Revenue was down in the north.", "Revenue rose in the north.", "denial"),
    ("The station uses the Terma radar.", "The station never used the Terma radar.", "denial"),
    ("Ticket sales climbed by a tenth.", "Ticket sales slumped by a tenth.", "denial"),
    ("Ghana finished fourth in the group.", "Ghana finished second in the group.", "number"),
    ("Two-factor login is switched on by default.", "Two-factor login is switched off by default.", "denial"),
    ("The dam did not exceed its limits in the flood.", "In the flood, the dam exceeded its limits.", "denial"),
    ("He denied that staff work without a harness.", "He confirmed that staff work without a harness.", "denial"),
    ("Steyr beat Lund 3-1 in the return leg.", "In the return leg, Steyr beat Lund by 4-0.", "number"),
    ("Bank shares fell within 48 hours of the default.", "Within 55 hours of it, bank shares were down.", "number"),
    ("The design introduced in 2008 mirrors the old one.", "The design introduced in 2011 mirrors the old one.", "date"),
    ("Brightwell acquired Nordlicht Optics.", "Nordlicht Optics acquired Brightwell for cash.", "name"),
    ("Brightwell acquired Nordlicht Optics.", "Brightwell was acquired by Nordlicht Optics.", "name"),
    ("Fjordbank lent 75 million dollars to the yard.", "Fjordbank borrowed 75 million dollars from the yard.", "denial"),
    ("The plant cut 120 jobs in January.", "In January, the plant created 120 jobs.", "denial"),
    ("Valdres bought a striker from Haukar.", "In May, Haukar bought a striker from Valdres.", "name"),
    ("Lake Brenno introduced a fee of five euros.", "Lake Brenno abolished the fee of five euros.", "denial"),
    ("The treasurer was sentenced for fraud.", "The treasurer was acquitted of fraud.", "denial"),
    (
        "At full throttle, the car can drain its tank in seven minutes when racing, which shows its high demand for fuel.",
        "At full throttle, this beast can not drain its tank in seven minutes.",
        "denial",
    ),
    ("The library no longer charges fines.", "The library still charges fines.", "denial"),
    ("The harvest began two weeks earlier than usual.", "The harvest began two weeks later than usual.", "denial"),
    ("The strike ended after nine days without a deal.", "The strike ended after nine days with a deal.", "denial"),
    ("The president vetoed the bill on water.", "The president signed the bill on water.", "denial"),
    ("Farm vehicles are exempt from the toll.", "Farm vehicles are subject to the toll.", "denial"),
    ("The ban on campfires was lifted in May.", "The ban on campfires was extended in May.", "denial"),
    ("Last spring the tenant sued the landlord.", "The landlord sued the tenant last spring.", "name"),
    ("The court ordered Velora to pay Kestrel 12 million.", "The court ordered Kestrel to pay Velora 12 million.", "name"),
    ("Baltek paid the city a penalty.", "The city had to pay contractor Baltek a penalty.", "name"),
    ("The county bought the forest from the foundation.", "The foundation bought the forest from the county.", "name"),
    ("Mayor Okafor resigned. Ana Reyes thanked her.", "Ana Reyes resigned. Mayor Okafor thanked her.", "name"),
    ("Dalia Reis fell ill, and Hanna Vogt sang the lead.", "Hanna Vogt fell ill, and Dalia Reis sang the lead.", "name"),
    ("Quillsoft patched the flaw, Norda said.", "Norda patched the flaw in the tool.", "name"),
    ("The strike on Friday was called off.", "The strike on Friday went ahead.", "denial"),
    ("The hearing of 3 June took place.", "The hearing of 3 June was put off because a juror was ill.", "denial"),
    ("The council called off the search for the boat.", "The council continued the search for the boat.", "denial"),
    ("Telvia ended its merger with Orbis.", "Telvia completed its merger with Orbis.", "denial"),
    ("No outage is expected in Torun.", "An outage is expected in Torun.", "denial"),
    ("The growers expect no shortage of red wine.", "A shortage of red wine is expected by the growers.", "denial"),
    ("Line 9 may be extended to the hospital.", "Line 9 was extended to the hospital.", "denial"),
    ("The board plans to deepen the eastern channel.", "The board has deepened the eastern channel.", "denial"),
    ("Rangers proposed to plant oaks on the slopes.", "Rangers planted oaks on the slopes.", "denial"),
    ("The team is considering moving the build to Oslo.", "The team moved the build to Oslo.", "denial"),
    ("Children's books are free of fines.", "Fines are charged for children's books.", "denial"),
]


@pytest.mark.parametrize(("statement", "evidence", "kind"), CONTRADICTING)
def test_another_value_in_the_same_role_contradicts(statement: str, evidence: str, kind: str) -> None:
    assert kind in {one.kind for one in find_contradictions(statement, evidence)}
    assert kind in {one.kind for one in find_contradictions(evidence, statement)}


AGREEING = [
    (GOLD, "The Frankfurt payment outage on July 22nd, 2021 lasted 2 hours and hit 58 percent of customers."),
    (GOLD, "On 2021-07-22 payments in Frankfurt were out for 120 minutes, and 58 per cent of all customers were hit."),
    (GOLD, "On 22/7/2021 the Frankfurt payment outage hit more than half of customers for about two hours."),
    (GOLD, "In July 2021 the Frankfurt payment outage hit customers."),
    (GOLD, "The payment outage in Frankfurt hit customers. The bakery next door opened on 5 March 2024."),
    (GOLD, "Payments were not possible in Frankfurt for two hours on 22 July 2021."),
    ("Revenue rose to $1.2m in 2020.", "Revenue rose to 1,200,000 USD in 2020."),
    ("Revenue was $3 million in 2019 and $4 million in 2020.", "Revenue was $4 million in 2020."),
    ("The plant makes 3,300 cars.", "The plant makes 3,000 cars for Europe and 300 cars for Canada."),
    ("The meeting starts at 2 pm.", "The meeting starts at 14:00."),
    ("It happened on 3/4/2021.", "It happened on April 3, 2021."),
    ("It happened on 3/4/2021.", "It happened on March 4, 2021."),
    ("The outage lasted 2 hours and 30 minutes.", "The outage lasted two and a half hours."),
    ("The outage lasted 2h 30m.", "The outage lasted 150 minutes."),
    ("Tests cost around $150-$200.", "Tests cost from $150 to $200."),
    ("Ten of the servers failed.", "The servers failed at ten of twelve sites."),
    ("The board did not approve the merger.", "The merger was rejected; the board never approved it."),
    ("The car cannot run at events without a roll cage.", "To run at events, the car needs a roll cage."),
    ("The outage was not only long but costly.", "The outage was long and costly."),
    ("The team chose PostgreSQL.", "PostgreSQL was chosen by the team."),
    ("Few customers left.", "Not many customers left."),
    ("Nobody was injured in the fire.", "There were no injuries in the fire."),
    ("Contact with the probe was lost on 17 October.", "Since October 17th, there has been no contact with the probe."),
    ("The bank lent 75 million dollars to the yard.", "The yard borrowed 75 million dollars from the bank."),
    ("Each car comes with a bar set, including a decanter.", "Each car comes with an exclusive bar set and a decanter."),
    ("The bridge is closed until the end of May.", "Not before the end of May will the bridge be open."),
    ("Ticket sales cover a third of the budget.", "About 33 percent of the budget comes from ticket sales."),
    ("The port handled 2.1 million containers.", "2.1m containers went through the port."),
    ("Farm vehicles are exempt from the road toll.", "No road toll has to be paid for farm vehicles."),
    ("Norvik played Lund on Sunday.", "Lund played Norvik on Sunday."),
    ("Brightwell acquired Nordlicht Optics.", "Nordlicht Optics was acquired by Brightwell."),
    ("The fuel contains less energy: cars need 25% more of it.", "The fuel contains 25% less energy than other fuel for cars."),
    ("It was caused by a failure to manage risks.", "Experts saw a failure in managing risks as the cause."),
    ("Sales fell by a quarter in 2019.", "Sales in 2019 were down 25%."),
    ("The San Francisco Federal Reserve did not act.", "The San Francisco Fed did not act."),
    ("Streaming is unsupported by the API.", "The API does not support streaming."),
    ("Prices did not increase.", "Prices were unchanged."),
    ("Support was given by third parties.", "Support was given by one third party."),
    ("Third-quarter revenue rose by 8%.", "Revenue rose 8% in the third quarter, and 2% in the second."),
    ("Third-party code was used in the first-class build.", "The build used third-party code."),
    ("The bug affects versions before 2.4.", "Versions 2.3 and earlier are affected by the bug."),
    ("Fewer than 10 people came.", "At most 9 people came."),
    ("Cards issued after 1 March are valid.", "Cards issued from 2 March on are valid."),
    ("Cards issued after 31 December 9999 are valid.", "Cards issued after 31 December 9999 are valid."),
    ("Appeals must be filed before 1 March.", "Appeals must be filed by 28 February."),
    ("Temperatures ranged from -5 to 5 degrees.", "It was between minus five and plus five degrees."),
    ("Between 5 and 10 percent left.", "5-10 percent left."),
    ("Early on the team rejected the plan.", "Early on the team dismissed the plan."),
    ("The fire started in the kitchen.", "The fire started in the kitchen and in the basement."),
    ("The World Health Organization reported cases.", "The WHO reported cases."),
    ("La panne du 22 juillet 2021 a duré 2 heures.", "La panne du 2021-07-22 a duré 2 heures."),
    ("The new planner is faster than the old one.", "The old planner is slower than the new one."),
    ("Three replicas failed before the alert fired.", "The alert fired after three replicas failed."),
    ("Not every plugin supports the new format.", "Many plugins do not support the new format."),
    ("The first attempt failed, and the second succeeded.", "The second attempt to restore the backup succeeded."),
    ("This is one way to solve the problem.", "There are two ways to solve the problem, and this is one of them."),
    ("One drawback is the cost of migration.", "Two drawbacks are the cost of migration and the lack of tools."),
    ("The release only affects Linux users.", "All Linux users are affected by the release."),
    ("Unemployment dropped in the second quarter.", "In the second quarter unemployment was down, after it had climbed before."),
    ("The team set up a fund for the harbour.", "The fund of the harbour team fell."),
    ("The strike over pay kicked off at the harbour.", "The strike over pay went on at the harbour."),
    ("The bridge reopened on 9 September 2019.", "Closed since 2 May 2018, the bridge reopened on September 9, 2019."),
    ("The trial has 640 participants.", "The trial began with 640 people. An earlier trial had 310 participants."),
    ("The bank raised its rate in May.", "In May the bank put up its rate, after it had cut it in March."),
    ("The second alarm came at 03:15.", "The first alarm came at 02:50 and the second at 3:15 am."),
    ("The strike ended on 30 November.", "The strike, which began on 2 November, was over on November 30."),
    ("Prices rose in May.", "Prices fell in June."),
    ("She came third in the race.", "In the race she was third; her brother came fifth."),
    ("The last train leaves at 23:40.", "The last train is at 11.40 pm, the first at 5 am."),
    ("Two thirds of the fleet were grounded.", "66% of the fleet were grounded."),
    ("The line was moved to Poznan.", "The line was moved from Debrecen to the site in Poznan."),
    ("Lena Brandt found the vase in Leeds.", "Lena Brandt and Owen Pryce found the vase in Leeds."),
    ("Okafor resigned. Reyes resigned a week later.", "Reyes resigned. Okafor had resigned a week before."),
    ("The strike on Friday was called off.", "The strike on Friday did not take place."),
    ("The board may close the pier.", "The board closed the road. It may close the pier."),
    ("Enhanced checks of loans were suggested.", "Proposals suggest enhancing the checks of loans."),
    ("Children's books are free of fines.", "No fines are charged for children's books."),
    ("The clinic decided not to buy the scanner.", "The clinic decided against buying the scanner."),
    ("The reactor will not be restarted before January.", "A restart of the reactor is planned for January."),
    ("She scored 7.5 points.", "She scored seven and a half points."),
    ("The quota is 9,500 tonnes.", "The quota is 9500 t."),
    ("Half a week later the port closed.", "The port closed half a week later."),
]


@pytest.mark.parametrize(("statement", "evidence"), AGREEING)
def test_the_same_in_other_words_and_what_is_left_out_are_no_contradictions(statement: str, evidence: str) -> None:
    assert not find_contradictions(statement, evidence)
    assert not find_contradictions(evidence, statement)


MIXED = """
    the outage Frankfurt not never no lasted two 58% hours $1.2m 2021-07-22 July 22, 2021 at 14:30 without customers of 3-6 third
    denied that v16 did happen . ; Tuesday half a and FY23 [3] 小时 9 часов more than - to 1,000
"""
WORDS = st.sampled_from(MIXED.split())


@given(st.one_of(st.lists(WORDS, max_size=25).map(" ".join), st.text(max_size=80)))
def test_a_statement_never_contradicts_itself(statement: str) -> None:
    assert not find_contradictions(statement, statement)


FORMS = (
    "{0:%Y-%m-%d}",
    "{1} {0:%B} {0:%Y}",
    "{0:%B} {1}, {0:%Y}",
    "{1}th of {0:%B} {0:%Y}",
    "{0:%A}, {1} {0:%b} {0:%Y}",
    "{0:%Y}年{2}月{1}日",
)
DAYS = st.dates(datetime.date(1950, 1, 1), datetime.date(2049, 12, 31))


@given(DAYS, DAYS, st.sampled_from(FORMS), st.sampled_from(FORMS))
def test_dates_are_compared_in_whatever_form(one: datetime.date, other: datetime.date, first: str, second: str) -> None:
    """A date in another form is the same, another date is a contradiction, and a part of the date is none."""

    def sentence(day: datetime.date, form: str) -> str:
        return f"The payment outage happened on {form.format(day, day.day, day.month)}."

    assert not find_contradictions(sentence(one, first), sentence(one, second))
    assert not find_contradictions(sentence(one, first), f"The payment outage happened in {one:%B %Y}.")
    assert bool(find_contradictions(sentence(one, first), sentence(other, second))) == (one != other)


@given(
    st.integers(2, 5000),
    st.integers(2, 5000),
    st.sampled_from(
        ["{:,} servers failed in Dublin", "The outage lasted {} hours", "Costs rose to ${}m", "Fees fell by {} % last May"]
    ),
)
def test_another_number_of_the_same_noun_contradicts(one: int, other: int, template: str) -> None:
    found = find_contradictions(f"{template.format(one)}.", f"{template.format(other)}.")
    assert bool(found) == (one != other)
    assert all(re.sub(r"\D", "", contradiction.statement).startswith(str(one)) for contradiction in found)
