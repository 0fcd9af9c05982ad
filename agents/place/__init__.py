"""The place policy, without PyTorch: its features, its decisions, and the search that it guides."""
