"""Arrays with named dimensions as matrices, and back."""
