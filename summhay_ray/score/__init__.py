"""The score room: PURE functions from judgments to scores (no I/O, no LLM, no Ray). Any room above it may import it."""

from summhay_ray.score.agreement_between import Agreement, RankAgreement, Verdicts, agreement_between, rank_agreement, ranks
from summhay_ray.score.bias import JudgeBias, bias_of, corrected
from summhay_ray.score.citations import Compat, extract_citations
from summhay_ray.score.insight import (
    SummaryScore,
    citation_scores,
    score_judgment,
    score_summary,
    summary_score,
    words_per_bullet,
)
from summhay_ray.score.position import PositionSensitivity, position_sensitivity
from summhay_ray.score.systems import SystemScore, TakenOff, system_scores

__all__ = [
    "Agreement",
    "Compat",
    "JudgeBias",
    "PositionSensitivity",
    "RankAgreement",
    "SummaryScore",
    "SystemScore",
    "TakenOff",
    "Verdicts",
    "agreement_between",
    "bias_of",
    "citation_scores",
    "corrected",
    "extract_citations",
    "position_sensitivity",
    "rank_agreement",
    "ranks",
    "score_judgment",
    "score_summary",
    "summary_score",
    "system_scores",
    "words_per_bullet",
]
