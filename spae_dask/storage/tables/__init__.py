"""Tables: their files, their columns, and their rows as numbers."""
