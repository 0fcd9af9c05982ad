"""HetPipeline-v0: cut a model into the stages of a pipeline, and place each on a device."""
