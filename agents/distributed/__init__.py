"""Training on a cluster: workers that play, while the learner stays in the process that was started.

What workers play does not depend on which of them did what, so a run ends with the weights of a local one. What
runs on workers needs neither PyTorch nor Stable-Baselines3.
"""
