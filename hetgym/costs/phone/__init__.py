"""Costs of phones, fitted to times of whole networks."""
