"""A request and its key, a reply, and the answer that is stored: values without I/O."""
