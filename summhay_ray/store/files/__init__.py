"""Files in a folder or a bucket."""
