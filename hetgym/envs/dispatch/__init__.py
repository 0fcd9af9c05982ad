"""HetDispatch-v0: the agent schedules online, during the simulated run."""
