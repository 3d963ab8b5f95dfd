"""Fits the model of findings to statements that a reader labelled, and measures it on folders that the fit has not seen.

    python tools/fit_findings.py labels.jsonl [--out summhay_ray/mine/finding_model.json]

Each line has a `text`, its `folder` and a `label`: 1 if the statement is a finding, else 0. The shipped model is fitted to 1,962
English statements of 34 public folders (minutes, incident reports, proposals, advisories, release posts, reports, news), all
labelled by one reader. Of these statements nothing but the weights and the means of the features is stored.
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

from summhay_ray.metrics import binary_scores
from summhay_ray.mine.findings import ENOUGH, finding_features

Floats = npt.NDArray[np.float64]
PENALTY = 5.0
"""Ridge penalty on the weights of standardized features."""


def fit(values: Floats, labels: npt.NDArray[np.bool_]) -> tuple[Floats, float]:
    """The weights and the intercept of the penalized maximum-likelihood fit."""
    mean, spread = values.mean(axis=0), np.maximum(values.std(axis=0), 1e-9)
    scaled, signs = (values - mean) / spread, np.where(labels, 1.0, -1.0)

    def loss(found: Floats) -> float:
        return float(np.logaddexp(0, -signs * (scaled @ found[:-1] + found[-1])).sum() + PENALTY * (found[:-1] ** 2).sum())

    found = minimize(loss, np.zeros(values.shape[1] + 1), method="L-BFGS-B").x
    weights = found[:-1] / spread
    return weights, float(found[-1] - weights @ mean)


def write(line: str) -> None:
    """Write a line to standard output."""
    sys.stdout.write(f"{line}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the figures of each folder by a fit to the others, and writes the fit to all of them."""
    parser = argparse.ArgumentParser(description="Fits the model of findings.")
    parser.add_argument("labels", type=Path, metavar="LABELS.jsonl")
    parser.add_argument("--out", type=Path, help="where to write the fit (summhay_ray/mine/finding_model.json is what ships)")
    options = parser.parse_args(arguments)
    rows = [json.loads(line) for line in options.labels.read_text(encoding="utf-8").splitlines() if line.strip()]
    features = [finding_features(row["text"]) for row in rows]
    values = np.array([[*one.values()] for one in features])
    labels = np.array([row["label"] == 1 for row in rows])
    folders = np.array([row["folder"] for row in rows])
    held_out = np.zeros(len(rows))
    for folder in dict.fromkeys(folders.tolist()):
        taken = folders == folder
        weights, intercept = fit(values[~taken], labels[~taken])
        held_out[taken] = 1 / (1 + np.exp(-(values[taken] @ weights + intercept)))
        shown = taken & (held_out >= ENOUGH)
        auc = binary_scores(held_out[taken].tolist(), labels[taken].tolist()).auc
        write(
            f"{folder}: {taken.sum()} statements, {labels[taken].sum()} findings, AUC {'-' if auc is None else f'{auc:.3f}'}, "
            f"shown {shown.sum()}, of them findings {labels[shown].sum()}"
        )
    shown = held_out >= ENOUGH
    auc = binary_scores(held_out.tolist(), labels.tolist()).auc
    write(f"all: {len(rows)} statements, AUC {auc:.3f}, shown {shown.sum()}, of them findings {labels[shown].sum()}")
    weights, intercept = fit(values, labels)
    fitted = {
        "about": f"fitted by tools/fit_findings.py to a reader's labels of {len(rows)} statements of {len(set(folders))} folders",
        "weights": {name: round(float(weight), 4) for name, weight in zip(features[0], weights, strict=True)},
        "means": {name: round(float(mean), 4) for name, mean in zip(features[0], values.mean(axis=0), strict=True)},
        "intercept": round(intercept, 4),
    }
    if options.out:
        options.out.write_text(json.dumps(fitted, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
