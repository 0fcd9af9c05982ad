"""Reading what users give: bounded files, JSON, YAML, configuration, times, seeds, and artefacts of arrays."""
