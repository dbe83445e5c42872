"""Sources and results: one format library a file. Import what you need from its module."""
