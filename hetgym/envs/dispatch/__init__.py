"""HetSchedule-v0 with ``mode="dispatch"``: the agent is the scheduler of a run that goes on."""
