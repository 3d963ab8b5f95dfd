"""Room summarize: summarizers that run in this process and need no key. Found by name (`summhay_ray.summarize.local_models`).

To add one: put one file here with a class that has a `name` (`offline/...`) and the `answer` of `summhay_ray.llm.LocalModel`.
"""
