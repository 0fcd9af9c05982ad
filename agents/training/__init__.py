"""hetgym's own training algorithms."""
