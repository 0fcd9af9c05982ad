"""HetSplit-v0: split the operators of a graph so that several devices share them."""
