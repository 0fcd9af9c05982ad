"""HetDispatch-v0: the agent schedules online, while the simulated run goes on."""
