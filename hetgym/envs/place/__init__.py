"""HetSchedule-v0: dynamics, observations and frames of placing operators one by one."""
