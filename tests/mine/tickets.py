"""A small, realistic folder: tickets in which a few facts recur in other words, and each ticket has facts of its own."""

from __future__ import annotations

from pathlib import Path

FACTS = (
    (
        "The label printer in hall 3 stops after 40 labels because its driver 7.2 leaks memory.",
        "Driver 7.2 leaks memory, so the label printer in hall 3 stops after 40 labels.",
        "After 40 labels the label printer of hall 3 stops: driver 7.2 is leaking memory.",
    ),
    (
        "Badge readers at the Velden gate reject cards that were issued before May 2019.",
        "Cards issued before May 2019 are rejected by the badge readers at the Velden gate.",
        "At the Velden gate the badge readers reject every card issued before May 2019.",
    ),
    (
        "The nightly export to Orbis fails when a customer has more than 512 orders.",
        "When a customer has more than 512 orders, the nightly export to Orbis fails.",
        "More than 512 orders of one customer make the nightly export to Orbis fail.",
    ),
    (
        "The backup of the payroll server runs at 2:30 every night.",
        "Every night at 2:30 the backup of the payroll server runs.",
        "The payroll server's backup runs every night at 2:30.",
    ),
)
OPPOSITE = "The backup of the payroll server does not run at 2:30 every night."
FOOTER = "Visit our help desk page at www.helpdesk.example for more answers!"
_OWN = (
    "Sabine asked for a second monitor and will collect it herself.",
    "The kettle was blamed first, wrongly as it turned out.",
    "Marek rebooted his machine before he wrote to us.",
    "A photo is attached, taken from quite far away.",
    "Logistics prefer to be called after lunch.",
    "Nothing in the manual covers this, so we guessed.",
    "Her chair squeaks, which is a matter for facilities.",
    "He closed the window and the noise went away.",
    "Somebody from finance had a similar case last summer.",
    "Please answer by mail, since the phone is out of order.",
    "The intern found the cable behind a cupboard.",
    "Priority was raised by the duty manager.",
    "It began when the carpet was replaced.",
    "Two colleagues share this account, against the rules.",
    "An old laptop stands in for the moment.",
    "The vendor promised a visit, without naming a day.",
    "Everything was fine until the coffee was spilled.",
    "Ilse wonders whether her headset is to blame.",
)


def write_tickets(folder: Path, number: int = 18) -> dict[str, set[str]]:
    """Write the tickets, and return fact (its first wording) -> the documents that state it."""
    folder.mkdir(parents=True, exist_ok=True)
    said: dict[str, set[str]] = {fact[0]: set() for fact in FACTS}
    for ticket in range(number):
        lines = [_OWN[ticket % len(_OWN)] + f" Ticket {7000 + ticket * 13}."]
        name = f"ticket-{ticket:02d}.txt"
        for place, fact in enumerate(FACTS):
            if (ticket + place) % 4 == 0:
                lines.append(fact[ticket // 4 % 3])
                said[fact[0]].add(name)
        if ticket % 5 == 2:
            lines.append(OPPOSITE)
        lines.append(FOOTER)
        (folder / name).write_text("\n\n".join(lines), encoding="utf-8")
    return said
