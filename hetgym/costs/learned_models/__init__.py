"""Regressors of run times: one kind a file, stored as plain arrays."""
