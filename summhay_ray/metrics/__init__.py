"""The metrics room: pure functions (no I/O, no LLM, no Ray) that compute scores, intervals, tests and correlations.

It imports `records` alone; any room above it may import it.
"""

from summhay_ray.metrics.agreement import (
    Agreement,
    RankAgreement,
    Verdicts,
    agreement_between,
    alpha,
    cohens_kappa,
    kappa,
    pearson,
    rank_agreement,
    ranks,
)
from summhay_ray.metrics.bert_scores import bertscore, check_bertscore, has_bertscore
from summhay_ray.metrics.bias import JudgeBias, bias_of, corrected
from summhay_ray.metrics.binary import BinaryScores, binary_scores
from summhay_ray.metrics.by_column import score_columns, words_per_bullet
from summhay_ray.metrics.citation_parsing import (
    MAY_BE_UNREAD,
    Citations,
    Compat,
    by_number,
    extract_citations,
    ids_of,
    read_citations,
)
from summhay_ray.metrics.correlation import (
    COEFFICIENTS,
    Bootstrap,
    Correlations,
    Interval,
    between_means,
    concordance,
    correlations,
    mean_within,
)
from summhay_ray.metrics.coverage_citation_joint import VALUES, figures, score_judgment, score_summary
from summhay_ray.metrics.labelled import FEWEST, LabelledScore, by_labels, corrected_mean, standard_error
from summhay_ray.metrics.nugget_scores import NUGGET_SCORES, nugget_scores_by_query, nugget_sums, with_nuggets
from summhay_ray.metrics.paired_differences import LEVEL, Over, Paired
from summhay_ray.metrics.position import PositionSensitivity, position_sensitivity
from summhay_ray.metrics.retrieval import Ranking, RetrievalScore, retrieval_scores, scores_at_cuts
from summhay_ray.metrics.rouge_scores import ROUGE_TYPES, rouge
from summhay_ray.metrics.score_intervals import QUANTILES_95, Z_95, column_intervals, floor_of, mean_interval
from summhay_ray.metrics.scores_by_system import (
    FIGURES,
    ByLabels,
    SystemScore,
    TakenOff,
    added,
    column_place,
    haystack_scores,
    insight_sums,
    of_column,
    query_means,
    system_scores,
    with_labels,
)

__all__ = [
    "COEFFICIENTS",
    "FEWEST",
    "FIGURES",
    "LEVEL",
    "MAY_BE_UNREAD",
    "NUGGET_SCORES",
    "QUANTILES_95",
    "ROUGE_TYPES",
    "VALUES",
    "Z_95",
    "Agreement",
    "BinaryScores",
    "Bootstrap",
    "ByLabels",
    "Citations",
    "Compat",
    "Correlations",
    "Interval",
    "JudgeBias",
    "LabelledScore",
    "Over",
    "Paired",
    "PositionSensitivity",
    "RankAgreement",
    "Ranking",
    "RetrievalScore",
    "SystemScore",
    "TakenOff",
    "Verdicts",
    "added",
    "agreement_between",
    "alpha",
    "bertscore",
    "between_means",
    "bias_of",
    "binary_scores",
    "by_labels",
    "by_number",
    "check_bertscore",
    "cohens_kappa",
    "column_intervals",
    "column_place",
    "concordance",
    "corrected",
    "corrected_mean",
    "correlations",
    "extract_citations",
    "figures",
    "floor_of",
    "has_bertscore",
    "haystack_scores",
    "ids_of",
    "insight_sums",
    "kappa",
    "mean_interval",
    "mean_within",
    "nugget_scores_by_query",
    "nugget_sums",
    "of_column",
    "pearson",
    "position_sensitivity",
    "query_means",
    "rank_agreement",
    "ranks",
    "read_citations",
    "retrieval_scores",
    "rouge",
    "score_columns",
    "score_judgment",
    "score_summary",
    "scores_at_cuts",
    "standard_error",
    "system_scores",
    "with_labels",
    "with_nuggets",
    "words_per_bullet",
]
