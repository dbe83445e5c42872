"""Figures and self-contained HTML pages about encoders; the only room that imports matplotlib and jinja2."""
