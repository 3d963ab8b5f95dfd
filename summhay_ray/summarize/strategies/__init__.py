"""One file per strategy, found by name (`make_summarizer`). See `summhay_ray.summarize.base` to add one."""
