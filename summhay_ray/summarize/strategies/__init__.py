"""One file for each kind of strategy, found by name (`make_summarizer`). `summhay_ray.summarize.base` describes how to add
one."""
