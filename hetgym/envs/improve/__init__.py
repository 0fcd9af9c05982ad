"""HetImprove-v0: improve a complete plan, move by move."""
