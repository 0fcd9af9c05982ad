"""HetSchedule-v0 with ``mode="place"``: dynamics, observations and frames of placing operators one by one."""
