"""The trainer of the place policy: self-labelling."""
