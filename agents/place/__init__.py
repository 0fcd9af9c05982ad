"""The place policy, without PyTorch: what it sees, how it decides, and the search that it guides."""
