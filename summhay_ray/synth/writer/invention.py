"""Part of the synth room's writer: invents names, numbers and dates that are new in a topic. For the writer alone."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from summhay_ray.synth.writer.grammar import name_banks
from summhay_ray.synth.writer.sentences import DATE, root, words_of
from summhay_ray.text import MONTHS

_TRIES = 40
_DATE = re.compile(DATE)
_DOLLARS: Mapping[str, int] = {"news": 1_000_000, "incident_reports": 2_000, "generic": 1_000}
"""The smallest sums of money in a domain; other domains have those of a household."""


class Inventor:
    """Draws random facts. No number, month of a year or invented name is repeated, or taken from the texts `taken`.

    The names of the makers are slots in the grammars.
    """

    def __init__(self, rng: random.Random, taken: Iterable[str], domain: str = "generic") -> None:
        self._rng, self._domain, self._banks = rng, domain, name_banks()
        self._taken: set[str] = set()
        for text in taken:
            self.take(text)
        self._makers: dict[str, Callable[[], str]] = {
            name: getattr(self, name)
            for name in ("person", "place", "firm", "product", "date", "month", "later", "money", "count", "percent")
            + ("minutes", "days", "time")
        }
        self._month = 0

    def take(self, text: str) -> None:
        """Exclude the numbers, names and dates of `text`."""
        words = words_of(text)
        self._taken |= words.tokens
        self._taken |= {root(word) for word in words.facts | words.doubtful}
        for date in _DATE.findall(text):
            self._taken |= {date, _month_of(date)}

    def draw(self, slots: Sequence[str]) -> dict[str, str]:
        """A value for each slot that is a kind of fact, in that order."""
        return {slot: self._makers[slot]() for slot in slots if slot in self._makers}

    def person(self) -> str:
        """First name and surname."""
        return f"{self._pick('first')} {self._name('surname_end')}"

    def place(self) -> str:
        """A town."""
        return self._name("place_end")

    def firm(self) -> str:
        """A firm of two words."""
        return f"{self._name('firm_end')} {self._pick('firm_kind')}"

    def product(self) -> str:
        """A product of two words."""
        return f"{self._name('firm_end')} {self._pick('product_kind')}"

    def date(self) -> str:
        """Day, month and year between 1995 and 2023."""
        return self._fresh(lambda: f"{self._between(1, 28)} {self._rng.choice(MONTHS)} {self._between(1995, 2023)}", _month_of)

    def month(self) -> str:
        """Month and year between 1995 and 2019; the next `later` lies after it."""
        value = self._fresh(lambda: self._month_at(self._between(12 * 1995, 12 * 2020 - 1)), self._itself)
        name, year = value.split()
        self._month = 12 * int(year) + MONTHS.index(name)
        return value

    def later(self) -> str:
        """Month and year, 7 to 48 months after the last `month`."""
        return self._fresh(lambda: self._month_at(self._month + self._between(7, 48)), self._itself)

    def money(self) -> str:
        """A sum in dollars, of a size that is usual in the domain."""
        least = _DOLLARS.get(self._domain, 0)
        if not least:
            return self._fresh(lambda: f"${self._between(1103, 98989) / 100:.2f}", self._number)
        if least >= 1_000_000:
            return self._fresh(lambda: f"${self._between(101, 9899) / 100:.2f} million", self._number)
        return self._fresh(lambda: f"${self._between(least + 11, 98 * least):,}", self._number)

    def count(self) -> str:
        """A number of three or four digits."""
        return self._fresh(lambda: f"{self._between(112, 9987):,}", self._number)

    def percent(self) -> str:
        """A share with one decimal, between 5 and 79."""
        return self._fresh(lambda: f"{self._between(5, 78)}.{self._between(1, 9)}", self._number)

    def minutes(self) -> str:
        """A number between 13 and 197."""
        return self._fresh(lambda: str(self._between(13, 197)), self._number)

    def days(self) -> str:
        """A number between 12 and 189."""
        return self._fresh(lambda: str(self._between(12, 189)), self._number)

    def time(self) -> str:
        """A time of day, hh:mm."""
        return self._fresh(lambda: f"{self._between(10, 22)}:{self._between(11, 58)}", self._itself)

    def like(self, number: str) -> str:
        """Another number of the same form: digits are replaced, other signs kept."""

        def make() -> str:
            digits = [str(self._between(0, 9)) if sign.isdigit() else sign for sign in number]
            digits[0] = str(self._between(1, 9))
            return "".join(digits)

        return self._fresh(make, self._number)

    def like_date(self, date: str) -> str:
        """Another date of the same form."""
        month = self._rng.choice(MONTHS)
        if "-" in date:
            return f"{self._between(1995, 2023)}-{self._between(1, 12):02}-{self._between(1, 28):02}"
        words = [month if word in MONTHS else word for word in date.split()]
        if words[-1].isdigit() and len(words[-1]) == 4:
            old = int(words[-1])
            words[-1] = str(old + self._rng.choice((-3, -2, -1, 1, 2, 3)))
        elif " ".join(words) == date:
            words = [MONTHS[(MONTHS.index(month) + 1) % 12] if word in MONTHS else word for word in words]
        return " ".join(words)

    def _month_at(self, months: int) -> str:
        return f"{MONTHS[months % 12]} {months // 12}"

    def _between(self, least: int, most: int) -> int:
        return least + int(self._rng.random() * (most - least + 1))

    def _pick(self, bank: str) -> str:
        lines = self._banks[bank]
        return lines[int(self._rng.random() * len(lines))]

    def _name(self, ending: str) -> str:
        return self._fresh(lambda: self._pick("start") + self._pick(ending), lambda name: root(name.lower()))

    def _itself(self, value: str) -> str:
        return value

    def _number(self, value: str) -> str:
        return "".join(sign for sign in value if sign.isdigit() or sign == ".")

    def _fresh(self, make: Callable[[], str], mark: Callable[[str], str]) -> str:
        """The first draw whose mark is not taken, within 40 draws; else the last one, since a small range may be used up."""
        for _ in range(_TRIES):
            value = make()
            if mark(value) not in self._taken:
                break
        self._taken.add(mark(value))
        return value


def _month_of(date: str) -> str:
    """The date without a leading day; a date of another form is unchanged."""
    return date.partition(" ")[2] if date[:1].isdigit() and " " in date else date
