"""Files in a folder or a bucket. A sub-room of the store, the only one that knows S3."""
