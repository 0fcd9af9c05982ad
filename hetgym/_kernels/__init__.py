"""Compilation by Numba: kernels, records, heaps and threads."""
