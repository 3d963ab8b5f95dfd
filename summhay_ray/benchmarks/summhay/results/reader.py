"""What is read of a run of summaries: scores, report, samples, and what led to each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from summhay_ray.benchmark import CitedAnswer, Claims, Compat, Reader, Results, RunStore, Samples, Section
from summhay_ray.benchmarks.summhay.haystacks.export import export
from summhay_ray.benchmarks.summhay.results.explain import explain, places
from summhay_ray.benchmarks.summhay.results.judges import judge_of_record
from summhay_ray.benchmarks.summhay.results.scores import results
from summhay_ray.records import system_label


class SummariesReader(Reader[Any]):
    """What is read of a run of summaries, made here or imported (then nothing was asked, and no cell is planned)."""

    def results(self, run: RunStore, compat: Compat = "default") -> Results:
        """See `Reader`: the scores of every system (section 4.1, Table 2)."""
        return results(run, compat)

    def sections(self, run: RunStore, compat: Compat = "default") -> Sequence[Section]:
        from summhay_ray.benchmarks.summhay.results.sections import sections

        return sections(run, compat, self.judge, self.labels)

    def judge_of(self, run: RunStore) -> str:
        return judge_of_record(run, self.judge)

    def samples(self, run: RunStore) -> Samples:
        """See `Reader`: each summary with its judgments."""
        from summhay_ray.benchmarks.summhay.results.samples import samples

        return samples(None if self.workload.storage.imported else self.workload, run, self.judge)

    def explain(self, run: RunStore, key: str, compat: Compat = "default") -> dict[str, Any]:
        """See `Reader`. Prompts are absent if nothing was asked."""
        return explain(None if self.workload.storage.imported else self.workload, run, run, key, compat)

    def places(self, run: RunStore, item_ids: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        return places(run, item_ids, None if self.workload.storage.imported else self.workload)

    def claims(self, run: RunStore) -> Claims:
        """See `Reader`: the summaries, and what each was shown, where the run knows it."""
        contexts = dict(run.table("contexts").select("context_id", "numbers").iter_rows())
        texts = run.table("documents").sort("haystack_id", "number")
        documents = {
            str(name): list(of.select("document_id", "text").iter_rows())
            for (name,), of in texts.group_by("haystack_id", maintain_order=True)
        }
        rows = run.table("summaries").with_columns(
            pl.when(pl.col("repeat") > 0).then(pl.format("{}#{}", "system", "repeat")).otherwise("system").alias("system")
        )
        answers = [
            CitedAnswer(
                row["haystack_id"],
                row["subtopic_id"],
                row["system"],
                tuple(row["bullets"]),
                tuple(documents[row["haystack_id"]][number - 1][0] for number in contexts[row["context_id"]])
                if row["context_id"] in contexts
                else None,
                system_label(row["retriever"], row["ordering"], row["model"]) + (f"#{row['repeat']}" if row["repeat"] else ""),
                *(row["model"], row["retriever"], row["ordering"]),
            )
            for row in rows.sort("haystack_id", "subtopic_id", "system").iter_rows(named=True)
        ]
        return Claims(documents, answers)

    def export(self, run: RunStore, folder: Path, judge: str = "") -> list[Path]:
        """See `Reader`: JSON files in the released format."""
        return export(run, folder, judge)
