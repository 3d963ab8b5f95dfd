"""A request and its key, a reply, and a stored answer: values without I/O."""
