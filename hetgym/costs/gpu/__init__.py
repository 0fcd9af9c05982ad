"""Costs of NVIDIA GPUs, fitted to public measurements."""
