"""The encoder on disk, and what its data are known by."""
