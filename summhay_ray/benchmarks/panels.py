"""The agreement of a panel's members, for the report of any benchmark whose judges may be panels."""

from collections.abc import Mapping, Sequence

import polars as pl

from summhay_ray.benchmark import Section
from summhay_ray.metrics import alpha


def panel_figures(
    votes: pl.DataFrame, by: Sequence[str], of: Sequence[str], label: str, worth: Mapping[str, float]
) -> pl.DataFrame:
    """Return one row per panel; empty without votes. `votes`: one row per member and judged thing, with `member`, `value` and
    `tied`. `by`, `of`: the columns that identify a panel and a judged thing. `label`: the column with a member's verdict.
    `worth`: verdict -> number."""
    rows = []
    for name, some in sorted(votes.partition_by(*by, as_dict=True).items()):
        by_member = some.with_columns(pl.col(label).replace_strict(worth, return_dtype=pl.Float64))
        wide = by_member.pivot("member", index=of, values=label)
        members = [column for column in wide.columns if column not in of]
        said = wide.drop_nulls()
        alike = said.select(pl.concat_list(members).list.n_unique() == 1).to_series()
        tied = some.join(said, on=of, how="semi").unique(of)["tied"].sum()
        counts = {"members": len(members), "unanimous": alike.mean(), "tied": tied / said.height if said.height else None}
        spread = by_member.group_by(of).agg(pl.col("value").std(ddof=0))["value"].mean()
        known = {"alpha": alpha(wide.select(members).to_numpy().T.tolist()), "spread of values": spread, "n": said.height}
        rows.append({**dict(zip(by, name, strict=True)), **counts, **known})
    return pl.DataFrame(rows, infer_schema_length=None)


def panels_section(figures: pl.DataFrame) -> list[Section]:
    if figures.is_empty():
        return []
    text = (
        "How far the members of each panel agree on what all of them judged. Unanimous: all give the same verdict. "
        "Tied: no verdict has most votes. Alpha: Krippendorff's, for ordinal data. Spread: the mean standard deviation of their "
        "values. The table of votes has every member's verdict."
    )
    return [Section("Panels", text, figures, dict.fromkeys(("unanimous", "tied"), "%"), name="panels")]
