"""Fits the free support judge's model for few documents to claims that people labelled, and measures it on other sources.

    python tools/fit_support.py claims.jsonl [--out lexical_model.json]

Each line has a `claim`, its `references` (texts), a label and a source, as `summhay judge-bench` reads them. The shipped model is
fitted to 578 claims of AttributionBench's development set (Li et al. 2024: AttributedQA, ExpertQA, LFQA, Stanford-GenSearch). It
consists of seven numbers; the claims are not stored. Both kinds of label have the same weight in the fit, so that 0.5 is the
threshold.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from summhay_ray.benchmarks.support.agreement import read_claim_labels
from summhay_ray.citations.lexical_model import FEATURES
from summhay_ray.citations.support_judge import SupportIndex
from summhay_ray.metrics import binary_scores

Floats = npt.NDArray[np.float64]
PENALTY = 1.0
"""Ridge penalty on the weights of standardized features."""
HALVES = 20


def fit(values: Floats, labels: npt.NDArray[np.bool_]) -> tuple[Floats, float]:
    """Return the weights and the intercept of the penalized maximum-likelihood fit. Both kinds of label have the same total
    weight."""
    mean, spread = values.mean(axis=0), np.maximum(values.std(axis=0), 1e-9)
    scaled, signs = (values - mean) / spread, np.where(labels, 1.0, -1.0)
    shares = np.where(labels, 0.5 / labels.mean(), 0.5 / (1 - labels.mean()))

    def loss(found: Floats) -> float:
        return float(
            (shares * np.logaddexp(0, -signs * (scaled @ found[:-1] + found[-1]))).sum() + PENALTY * (found[:-1] ** 2).sum()
        )

    found = minimize(loss, np.zeros(values.shape[1] + 1), method="BFGS").x
    weights = found[:-1] / spread
    return weights, float(found[-1] - weights @ mean)


def predict(model: tuple[Floats, float], claims: Sequence[Floats]) -> Floats:
    """Return the value of each claim, which is the largest value of its references."""
    weights, intercept = model
    return np.array([(1 / (1 + np.exp(-(one @ weights + intercept)))).max() for one in claims])


def figures(values: Floats, labels: npt.NDArray[np.bool_]) -> str:
    """Return AUC, balanced accuracy at 0.5, and the share of claims with a value of at least 0.5, as text."""
    scores = binary_scores(values.tolist(), labels.tolist())
    return (
        f"AUC {scores.auc:.3f}  balanced accuracy {scores.balanced_accuracy:.3f}  called supported {scores.called_positive:.2f}"
    )


def write(line: str) -> None:
    """Write a line to standard output."""
    sys.stdout.write(f"{line}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures of fits to other sources and to other halves, and write the fit to all claims."""
    parser = argparse.ArgumentParser(description="Fits the free support judge's model for a few documents.")
    parser.add_argument("claims", type=Path, metavar="CLAIMS.jsonl")
    parser.add_argument(
        "--out", type=Path, help="the file for the fit (the shipped one is summhay_ray/citations/lexical_model.json)"
    )
    options = parser.parse_args(arguments)
    rows = [json.loads(line) for line in options.claims.read_text(encoding="utf-8").splitlines() if line.strip()]
    pairs = read_claim_labels(options.claims)
    sources, labels = np.array([source for source, _ in pairs]), np.array([label for _, label in pairs])
    claims = [np.array(SupportIndex(row["references"]).features_of_few(row["claim"])) for row in rows]
    # The fit uses the reference that shares the most words with the claim.
    best = np.array([one[one[:, 0].argmax()] for one in claims])

    def held_out(taken: npt.NDArray[np.bool_]) -> Floats:
        return predict(fit(best[~taken], labels[~taken]), [one for one, is_taken in zip(claims, taken, strict=True) if is_taken])

    for source in dict.fromkeys(sources.tolist()):
        taken = sources == source
        write(f"fitted to the other sources, {source} ({taken.sum()}): {figures(held_out(taken), labels[taken])}")
        own = fit(best[taken], labels[taken])
        others = predict(own, [one for one, is_taken in zip(claims, taken, strict=True) if not is_taken])
        write(f"fitted to {source}, the other sources ({(~taken).sum()}): {figures(others, labels[~taken])}")
    halves: list[tuple[float, float]] = []
    for seed in range(HALVES):
        taken = np.random.default_rng(seed).permutation(len(labels)) % 2 == 0
        values = np.zeros(len(labels))
        values[taken], values[~taken] = held_out(taken), held_out(~taken)
        scores = binary_scores(values.tolist(), labels.tolist())
        halves.append((scores.auc or 0.0, scores.balanced_accuracy or 0.0))
    write("fitted to the other half, all sources: AUC {:.3f}  balanced accuracy {:.3f}".format(*np.mean(halves, axis=0)))
    weights, intercept = fit(best, labels)
    fitted = {
        "about": f"fitted by tools/fit_support.py to people's labels of {len(labels)} claims (AttributionBench)",
        "weights": {name: round(float(weight), 4) for name, weight in zip(FEATURES, weights, strict=True)},
        "intercept": round(intercept, 4),
    }
    write(json.dumps(fitted))
    if options.out:
        options.out.write_text(json.dumps(fitted, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
