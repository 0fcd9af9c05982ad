"""HetSchedule-v0 with ``mode="dispatch"``: the agent schedules online, while the simulated run goes on."""
