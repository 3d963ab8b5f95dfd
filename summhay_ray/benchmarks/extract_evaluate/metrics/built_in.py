"""The metrics that a spec can name: `rouge-1`, `rouge-2`, `words`, `bertscore`, `bartscore`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from summhay_ray.benchmarks.extract_evaluate.metrics import Texts
from summhay_ray.encoders import find_model, load_likelihood
from summhay_ray.extract import named_layers, rouge_n
from summhay_ray.metrics import bertscore


class Rouge1F1:
    """ROUGE-1 F1 against the reference by py-rouge's rules, like the paper's baselines."""

    name: ClassVar[str] = "rouge-1"
    order: ClassVar[int] = 1

    def score(self, texts: Sequence[Texts]) -> list[float | None]:
        return [
            rouge_n(text.summary, text.reference, self.order, script=text.script).f1 if text.reference else None for text in texts
        ]


class Rouge2F1(Rouge1F1):
    """ROUGE-2 F1."""

    name: ClassVar[str] = "rouge-2"
    order: ClassVar[int] = 2


class Words:
    """The number of words in the summary, split at white space. A metric that correlates no better may only measure length."""

    name: ClassVar[str] = "words"

    def score(self, texts: Sequence[Texts]) -> list[float | None]:
        return [float(len(text.summary.split())) for text in texts]


@dataclass(frozen=True)
class BertScoreF1:
    """BERTScore F1 of the summary against the reference (Zhang et al., 2020). Needs the extra `bertscore`."""

    name: ClassVar[str] = "bertscore"
    takes_model: ClassVar[bool] = True
    own_model: ClassVar[str] = "roberta-large"
    """The default of `bert_score` for English; the paper names no model."""
    model: str = own_model
    """A name known to `bert_score`, or `FOLDER@LAYER`."""

    def score(self, texts: Sequence[Texts]) -> list[float | None]:
        name, layer = named_layers(self.model)
        folder = find_model(name).folder
        model = str(folder) if folder else name
        return [bertscore(text.summary, [text.reference], model, layer) if text.reference else None for text in texts]


@dataclass(frozen=True)
class BartScore:
    """The mean log probability of the summary's tokens given its source (Yuan et al., 2021). This direction measures
    faithfulness; the paper names neither direction nor checkpoint. The source is cut to the model's maximum length."""

    name: ClassVar[str] = "bartscore"
    takes_model: ClassVar[bool] = True
    own_model: ClassVar[str] = "facebook/bart-large-cnn"
    model: str = own_model
    """Any seq2seq folder or hub name."""

    def score(self, texts: Sequence[Texts]) -> list[float | None]:
        model = load_likelihood(self.model)
        return [model.mean_log(text.source, text.summary) for text in texts]
