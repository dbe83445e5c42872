"""The states of a run that may be cut short: files in a folder or an object store, and what they are of."""
