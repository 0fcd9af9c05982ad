"""The field's learned methods: a file for each, with its network and its source."""

METHODS = "doppler", "giph", "l2d", "slim-place"
"""Methods whose trained policies ship, by recipe."""
