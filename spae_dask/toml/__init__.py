"""Files in TOML that users write, read so that every mistake is told with its line."""
