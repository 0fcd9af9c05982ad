"""Solvers of sharding problems."""
