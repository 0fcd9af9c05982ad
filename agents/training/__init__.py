"""Our own trainer: self-labelling of the place policy."""
