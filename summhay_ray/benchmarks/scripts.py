"""The field `script` in specs of benchmarks that compare words.

Benchmarks import this module. It imports `summhay_ray.benchmark` and `text`.
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from pydantic import Field

from summhay_ray.benchmark import Spec
from summhay_ray.text import Script, is_latin

MEND_SCRIPT = "with script: auto, and without compat: release, every script has words"


class OfWordsSpec(Spec):
    """The spec of a benchmark that compares words."""

    LATER: ClassVar[frozenset[str]] = Spec.LATER | {"script"}

    script: Script = Field(
        default="auto",
        description="words in texts that are not Latin; auto: by ICU; latin: by the papers' rules, which find almost none",
    )

    def warn_of_foreign(self, what: str, texts: Iterable[Sequence[str]]) -> list[str]:
        """Warn about texts in other scripts that `script: latin` would read by its rules for Latin. `texts`: groups of texts;
        the texts of a group are compared with each other."""
        foreign = [] if self.script == "auto" else [not is_latin(*group) for group in texts]
        warning = (
            f"{what}: {sum(foreign)} of {len(foreign)} are not in Latin script, where script: latin finds no word; {MEND_SCRIPT}"
        )
        return [warning] if any(foreign) else []
