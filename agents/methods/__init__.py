"""The field's learned methods: a file for each, with its network and its source."""
