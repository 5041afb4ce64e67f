"""One file per objective. To add one: a file here with a class, and its line in `registry.py`."""
