"""The arguments and options of the verbs, each declared once. Light: nothing heavy is imported."""
