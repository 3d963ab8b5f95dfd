"""Names that nothing in the package uses, grouped by their outside users. All other unused names are dead code.

Each name is here once, as an expression. `test_dead_code.py` compares the list with vulture's findings in both directions.
"""

# ruff: noqa: B018, F821

# Python, pydantic, typer and the libraries call or read these.
__dir__
__getattr__
format_commands
_repr_png_
model_config
_labels_differ
_can_reduce
_with_models
_one_source
_some_source
_some_task
_names_differ
_no_prompt
_overlap_is_less
_price_is_whole
_one_of_both
_retrievers_differ
_has_corpora
_one_or_many
_stages_asked
_asked_alone
_can_repeat
_budgets_count
_makes
_filled_in
_samples_differ
enable_progress_bars
verbose_stats_logs
print_on_execution_start
suppress_debug_info
telemetry
drop_params
# Fields of stored records; readers use the schema.
claimed_margin
# Notebooks and the server of a report use these.
do_HEAD
log_message
# For users of Python (docs/how-to/odsum.md). The registry finds the benchmarks by kind; pydantic calls the validator.
pipeline_run
Odsum
OdsumBuild
_crossed
_sizes_fit

# Columns of tables and fields of JSON documents; whole objects are written.
baseline_joint
unanimous
usd_per_query
not_shown_worse
more_queries
min_input_tokens
max_input_tokens
min_output_tokens
max_output_tokens
usd_min
checks_by_model
rouge1
rouge2
rougeL
rougeLsum
geval_extract
other_language
not_shown
sum_votes
member_texts
n_votes
citation_f1
joint_corrected
coverage_labelled
joint_labelled
repeated_answered

# The options of the simulated provider name these as text.
hangs
drops
filtered
refusals
no_usage
wrong_usage

# For authors of benchmarks, through `summhay_ray.benchmark` and `summhay_ray.report`.
assistant

# For benchmarks with their own corpora, and `summhay retrieve`.
Retriever

# For people who label criteria of ETHIC on a sheet (docs/how-to/ethic.md).
read_label_sheet

# Columns of tables.

# `benchmarks.KINDS` names these as module:Class.
Ethic
EthicBuild
ExtractEvaluate

# The computations that an actor reports.
compute_s

# The job reads this field of a run's JSON document.
tried_again

# Called by the HTML parser.
handle_starttag
handle_endtag
handle_data

# Called by markitdown.
convert

# Python looks up a module's attributes in its class.
__class__

# The engine reads this option from a mapping, by its name as text.
release_uncertain
