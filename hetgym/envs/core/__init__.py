"""Machinery that all environments share: lanes, their scalar and vector views, autoreset, sources and replay."""
