"""Measuring operators, links and peaks of real devices. Needs torch (extra ``[torch]``)."""
