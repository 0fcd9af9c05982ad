"""HetPipeline-v0 on training problems: degrees, micro-batch and schedule first, then the stages."""
