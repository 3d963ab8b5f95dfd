"""Room summarize: one file per strategy, found by name (`make_summarizer`); `summhay_ray.summarize.base` says how to add one."""
