"""Rules: how each kind of operator can be sharded on one axis of a mesh, a table for each family."""
