"""Training of skill-aware policies: environments, agent, losses, evaluation and export.

Importing the package (or its environments) does not import torch: rollout workers and robots work without it.
"""
