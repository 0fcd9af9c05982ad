"""HetCluster-v0: degrees, micro-batch and schedule of a training step first, then the stages of its pipeline."""
