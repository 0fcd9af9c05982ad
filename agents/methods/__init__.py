"""The field's learned methods: a file for each, with its network and its source."""

METHODS = "doppler", "gdp", "giph", "l2d", "maskable-ppo-graph", "placeto", "readys", "slim", "slim-place"
"""Recipes of the methods, whose trained policies ship under the same names; l2d and slim plan job shops alone."""
